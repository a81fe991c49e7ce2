"""A run: from its spec to its folder of weights, rounds and verdict, and back."""

from __future__ import annotations

import hashlib
import json
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedloom.artifacts import atomic, read_json, write_text
from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Tensors, below, compact
from fedloom.federation.starting import read_source
from fedloom.federation.store import Interrupted, Saver, Store, log_frame, read_tensors, spread, write_tensors
from fedloom.federation.subset import Subset
from fedloom.federation.task import Task
from fedloom.federation.tasks import registry as tasks

OUTPUTS = (
    "weights.safetensors", "snapshots.safetensors", "rounds.parquet", "run.json", "timing.parquet", "environment.json"
)  # fmt: skip
Maker = Callable[[dict[str, Any]], Method]  # a spec -> its method, with its client model


@dataclass(frozen=True)
class Run:
    """A finished (or diverged) run as evaluation reads it."""

    spec: dict[str, Any]
    verdict: str
    reason: str | None
    method: Method
    task: Any
    skeleton: nn.Module
    tensors: Tensors

    def weights(self, selection: str) -> Tensors:
        """Weights [C, ...] of the ``selected`` or the ``last`` round, or of ``round{r}``, on the task's device."""
        moved = {n: t.to(self.task.device) for n, t in below(self.tensors, f"{selection}/").items()}
        return spread(moved, len(self.task.ids))

    @property
    def snapshots(self) -> list[int]:
        """The rounds whose weights were kept, in order; ``round{r}`` is the selection of each."""
        found = {name.partition("/")[0] for name in self.tensors}
        return sorted(int(name.removeprefix("round")) for name in found if name.startswith("round"))


def _identity(spec: dict[str, Any], digest: str, folders: list[Path], files: list[Path]) -> str:
    """Hash of spec, code and the content of the data and of what the run starts from."""
    mixed = hashlib.sha256(json.dumps([spec, digest], sort_keys=True).encode())
    data = sorted(p for folder in folders for p in folder.glob("*.*") if not p.name.startswith("."))
    for path in (*data, *files):
        mixed.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return mixed.hexdigest()


def train_run(
    spec: dict[str, Any],
    digest: str,
    make: Maker,
    data: Path,
    partition: Path,
    out: Path,
    state_folder: Path,
    device: torch.device,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
    save_every_seconds: float = 30.0,
    start: Path | None = None,
) -> None:
    """Train the run that ``spec`` describes and write its folder; go on from a saved state where there is one.

    ``start`` is the folder of the run that the spec says it starts from.
    ``progress`` is told (rounds done, rounds in all, a short text). Raises InputError on bad input, and Interrupted
    (exit status 75) after a signal.
    """
    protocol = Protocol(**spec["protocol"])
    task: Task = read_task(spec, data, partition, device)
    source = read_source(start, spec)
    if not int(task.sizes("train").sum()):
        raise InputError(f"{partition}: training samples: expected at least one, found none")
    store = Store(state_folder, _identity(spec, digest, [data, partition], source.files if source else []))
    with store.locked():
        if store.finished(out):
            progress(1, 1, "trained by a process that outlived its Snakemake")
            return
        saver = Saver(store, save_every_seconds)
        method = make(spec)
        trained_on: Any = task
        if method.pools:
            trained_on = trained_on.pooled()  # its weights [1, ...] are every client's when they are read back
        if source is not None:
            method = source.freezing(method, trained_on)
        federation = Federation(method, trained_on, protocol, spec["seed"])
        fresh = federation.start()
        if source is not None:
            source.begin(fresh)
        state = store.load(fresh, len(trained_on.ids))
        begun, first = time.monotonic(), state.round

        def after_round(state: State) -> bool:
            best = f"best validation score {state.best.score:.4g} in round {state.best.round}"
            progress(state.round, federation.rounds, best if state.best.round >= 0 else "nothing selected yet")
            return saver(state)

        federation.run(state, after_round)
        if saver.stopped_by is not None and state.round < federation.rounds and state.diverged is None:
            raise Interrupted
        seconds = time.monotonic() - begun
        _write(federation, task, state, spec, digest, out)
        done = state.round - first
        timing = {"rounds": [done], "seconds": [seconds], "threads": [torch.get_num_threads()]}
        timing["peak_megabytes"] = [_peak_bytes(device) / 2**20]
        with atomic(out / "timing.parquet") as temporary:
            pd.DataFrame(timing).to_parquet(temporary)
        environment = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        }
        write_text(out / "environment.json", json.dumps(environment, indent=2, sort_keys=True) + "\n")
        store.finish([out / name for name in OUTPUTS])


def _peak_bytes(device: torch.device) -> int:
    """The most memory that training held: of the device, or of the whole process where that is the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def read_task(spec: dict[str, Any], data: Path, partition: Path, device: torch.device, **protocol: Any) -> Any:
    """The task of a run, on the clients that its spec asks for; ``protocol`` is what differs from the spec's.

    Raises InputError where the family of tasks cannot be told for some clients alone.
    """
    family = tasks.get(spec["family"])
    task: Any = family.read(data, partition, Protocol(**{**spec["protocol"], **protocol}), device)
    if "clients" not in spec:
        return task
    if not hasattr(task, "only"):
        raise InputError(f"clients: expected a family of tasks that can be cut to some clients, found {spec['family']}")
    return task.only(Subset(**spec["clients"]).chosen(task.keys, spec["seed"]))


def _write(federation: Federation, task: Task, state: State, spec: dict[str, Any], digest: str, out: Path) -> None:
    weights: Tensors = {}
    if state.diverged is None:
        weights = compact(state.best.weights, "selected") | compact(federation.weights(state), "last")
    with atomic(out / "weights.safetensors") as temporary:
        write_tensors(temporary, weights)
    with atomic(out / "snapshots.safetensors") as temporary:
        write_tensors(temporary, state.snapshots)
    with atomic(out / "rounds.parquet") as temporary:
        log_frame(state.log).to_parquet(temporary)
    described = {
        "spec": spec,
        "digest": digest,
        "verdict": "finished" if state.diverged is None else "diverged",
        "reason": state.diverged,
        "rounds": state.round,
        "selected_round": state.best.round,
        "clients": task.ids,
        "parameters": federation.parameters,
        "client_parameters": federation.method.parameters(task, federation.skeleton).tolist(),
        "central_parameters": federation.central_parameters(state),
        "train_samples": task.sizes("train").tolist(),
    }
    write_text(out / "run.json", json.dumps(described, indent=2, sort_keys=True) + "\n")


def read_run(folder: Path, data: Path, partition: Path, make: Maker, device: torch.device) -> Run:
    """Read a run's folder and put its task on ``device``. Raises InputError where there is no run."""
    described = read_json(folder / "run.json", "a run")
    spec = described["spec"]
    task = read_task(spec, data, partition, device)
    if task.ids != described["clients"]:
        raise InputError(f"{folder / 'run.json'}: clients: expected those of {partition}, found others")
    method = make(spec)
    tensors = read_tensors(folder / "weights.safetensors")[0] | read_tensors(folder / "snapshots.safetensors")[0]
    skeleton = method.client(task).to(device=device, dtype=task.dtype)
    return Run(spec, described["verdict"], described["reason"], method, task, skeleton, tensors)
