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

from fedloom.artifacts import atomic
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

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock. Raises InputError naming the holder where another process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                raise InputError(f"{self.folder}: expected no other writer, found {handle.read().strip()}") from None
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
        )

    def clear(self) -> None:
        """Remove the state once the run's outputs are in place."""
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)


def _as_before(tensors: dict[str, Tensor], fresh: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in the order of ``fresh``: sums over all of a model's tensors are rounded in that order."""
    return {name: tensors[name] for name in fresh if name in tensors} | tensors


def spread(weights: dict[str, Tensor], clients: int) -> dict[str, Tensor]:
    """Undo ``compact``: a tensor of one row becomes every client's, without copies."""
    return {n: w.expand(clients, *w.shape[1:]) if w.shape[0] == 1 else w for n, w in weights.items()}


class Saver:
    """Saves after a round when it is time to, and at once after SIGTERM or SIGUSR1, which also end training."""

    def __init__(self, store: Store, every_seconds: float = 30.0) -> None:
        self.store, self.every = store, every_seconds
        self.stopped_by: int | None = None
        self._saved = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = number

    def __call__(self, state: State) -> bool:
        """After a round: save if due; True where training must end now."""
        due = time.monotonic() - self._saved >= self.every
        if state.diverged is None and (due or self.stopped_by is not None):
            self.store.save(state)
            self._saved = time.monotonic()
        return self.stopped_by is not None
