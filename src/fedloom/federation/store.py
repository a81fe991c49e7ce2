"""Training state on disk: saved whole, one copy behind kept, one writer at a time."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pandas as pd
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from fedloom.artifacts import atomic, read_json, write_text
from fedloom.errors import InputError
from fedloom.federation.rounds import Best, State
from fedloom.federation.stack import below, compact

LOG_COLUMNS = ["round", "client", "quantity", "value"]


def log_frame(log: list[tuple[int, str, str, float]]) -> pd.DataFrame:
    """A state's log as a table: round, client, quantity, value."""
    frame = pd.DataFrame(log, columns=LOG_COLUMNS)
    return frame.astype({"round": "int32", "client": "str", "quantity": "str", "value": "float64"})


def _checksum(tensors: dict[str, Tensor]) -> str:
    mixed = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        mixed.update(name.encode())
        mixed.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return mixed.hexdigest()


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file that ``write_tensors`` wrote. Raises InputError where it is torn or changed."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            # Copies, since where a tensor lies in the file decides its alignment in memory, and alignment decides how
            # a matrix product rounds: without them a resumed run differs in the last bit from an unbroken one.
            tensors = {n: file.get_tensor(n).clone() for n in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise InputError(f"{path}: expected a whole safetensors file, found {error}") from error
    found = _checksum(tensors)
    if metadata.get("checksum") != found:
        raise InputError(f"{path}: checksum: expected {metadata.get('checksum')}, found {found}")
    return tensors, metadata


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write CPU tensors as a safetensors file with a checksum. Raises OSError where it cannot be written."""
    try:
        save_file(tensors, path, {"checksum": _checksum(tensors)} | (metadata or {}))
    except safetensors.SafetensorError as error:
        raise OSError(f"{path}: could not be written: {error}") from error


class Store:
    """Where a run's state lives between rounds.

    ``identity`` names spec, data and code; a state of another identity is set aside, never continued.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity
        self.path = folder / "state.safetensors"
        self.previous = folder / "state.previous.safetensors"
        self.note = folder / "finished.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock; wait for it, naming the holder, while another process has it.

        That is one whose Snakemake was killed: to fail here would end the rerun too.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a+") as handle:
            told = False
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not told:
                        handle.seek(0)
                        holder = handle.read().strip()
                        print(f"fedloom: {self.folder}: waits for {holder} to end", file=sys.stderr, flush=True)
                    told = True
                    time.sleep(0.5)
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {socket.gethostname()}")
            handle.flush()
            yield

    def save(self, state: State) -> None:
        """Write the state; the one before it stays as the previous copy."""
        tensors = {
            **compact(state.params, "params"),
            **compact(state.buffers, "buffers"),
            **compact(state.server, "server"),
            **compact(state.best.weights, "best"),
            **{f"snapshots/{n}": t for n, t in state.snapshots.items()},
            **{f"held_up/{n}": t.cpu() for n, t in state.held_up.items()},
        }
        for step, moments in state.moments.items():
            tensors |= {f"moments/{step}/{n}": t.cpu().contiguous() for n, t in moments.items()}
        table = io.BytesIO()
        log_frame(state.log).to_parquet(table)
        tensors["log"] = torch.frombuffer(bytearray(table.getvalue()), dtype=torch.uint8)
        metadata = {
            "identity": self.identity,
            "round": str(state.round),
            "best": json.dumps([state.best.round, state.best.score]),
        }
        with atomic(self.path) as temporary:
            write_tensors(temporary, tensors, metadata)
            if self.path.exists():
                os.replace(self.path, self.previous)

    def load(self, fresh: State, clients: int) -> State:
        """The newest readable state of this identity, on the devices of ``fresh``; ``fresh`` itself where none is."""
        for path in (self.path, self.previous):
            if not path.exists():
                continue
            try:
                tensors, metadata = read_tensors(path)
            except InputError as error:
                print(f"fedloom: unreadable state set aside: {error}", file=sys.stderr, flush=True)
                os.replace(path, path.with_suffix(".unreadable"))
                continue
            if metadata.get("identity") != self.identity:
                print(f"fedloom: {path}: state of another spec, data or code set aside", file=sys.stderr, flush=True)
                os.replace(path, path.with_suffix(".other"))
                continue
            return self._state(tensors, metadata, fresh, clients)
        return fresh

    def _state(self, tensors: dict[str, Tensor], metadata: dict[str, str], fresh: State, clients: int) -> State:
        device = next(iter([*fresh.params.values(), *fresh.buffers.values()]), torch.empty(0)).device
        moved = {n: t.to(device) for n, t in tensors.items() if n != "log"}
        moments: dict[str, dict[str, Tensor]] = {}
        for name, tensor in below(tensors, "moments/").items():
            step, _, key = name.partition("/")
            moments.setdefault(step, {})[key] = tensor.to("cpu" if key.endswith("/count") else device)
        best_round, best_score = json.loads(metadata["best"])
        log = pd.read_parquet(io.BytesIO(tensors["log"].numpy().tobytes()))
        return State(
            round=int(metadata["round"]),
            params=_as_before(below(moved, "params/"), fresh.params),
            buffers=_as_before(below(moved, "buffers/"), fresh.buffers),
            moments=moments,
            server=_as_before(below(moved, "server/"), fresh.server),
            best=Best(best_round, best_score, spread(below(moved, "best/"), clients)),
            log=[(int(r), str(c), str(q), float(v)) for r, c, q, v in log.itertuples(index=False)],
            snapshots=below(tensors, "snapshots/"),
            held_up=below(moved, "held_up/"),
        )

    def finish(self, outputs: list[Path]) -> None:
        """Remove the state now that the run's ``outputs`` are in place, and note what these are."""
        note = {"identity": self.identity, "outputs": {path.name: _hash(path) for path in outputs}}
        write_text(self.note, json.dumps(note, indent=2, sort_keys=True) + "\n")
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)

    def finished(self, out: Path) -> bool:
        """Whether ``out`` holds what ``finish`` noted under this identity: an orphaned process ended meanwhile."""
        if not self.note.is_file():
            return False
        note = read_json(self.note, "what a finished training noted")
        hashes = note["outputs"].items()
        return note["identity"] == self.identity and all((out / f).is_file() and _hash(out / f) == h for f, h in hashes)


def _as_before(tensors: dict[str, Tensor], fresh: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in the order of ``fresh``: sums over all of a model's tensors are rounded in that order."""
    return {name: tensors[name] for name in fresh if name in tensors} | tensors


def spread(weights: dict[str, Tensor], clients: int) -> dict[str, Tensor]:
    """Undo ``compact``: a tensor of one row becomes every client's, without copies."""
    return {n: w.expand(clients, *w.shape[1:]) if w.shape[0] == 1 else w for n, w in weights.items()}


class Interrupted(SystemExit):
    """Training stopped on a signal (exit status 75); the same command goes on from the state that was saved last."""

    def __init__(self) -> None:
        super().__init__(75)


class Saver:
    """Saves after a round when it is time to, and ends training after SIGTERM or SIGUSR1.

    A round that ends within ``patience`` seconds of the signal is saved; a longer one is given up by raising
    Interrupted wherever it is, since the schedulers that send such signals kill soon afterwards.
    """

    def __init__(self, store: Store, every_seconds: float = 30.0, patience: float = 5.0) -> None:
        self.store, self.every, self.patience = store, every_seconds, patience
        self.stopped_by: int | None = None
        self._saved = self._round_began = time.monotonic()
        self._cost = 0.0
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._give_up)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = number
        # Again every second: what is raised inside a callback of C code may be dropped there.
        signal.setitimer(signal.ITIMER_REAL, self.patience, 1.0)

    def _give_up(self, number: int, frame: FrameType | None) -> None:
        raise Interrupted

    def __call__(self, state: State) -> bool:
        """After a round: save if due; True where training must end now."""
        now = time.monotonic()
        # Only rounds that would be given up need a save each, and saving must stay a small part of training.
        lengthy = now - self._round_began > max(self.patience, 10 * self._cost)
        if self.stopped_by is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if state.diverged is None and (lengthy or now - self._saved >= self.every or self.stopped_by is not None):
            self.store.save(state)
            self._saved = time.monotonic()
            self._cost = self._saved - now
        self._round_began = time.monotonic()
        return self.stopped_by is not None
