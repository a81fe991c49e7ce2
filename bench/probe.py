"""One step of every method on data of every dataset's shape at a scale: does it run, and what will the runs cost?

``python -m bench.probe`` writes docs/paper-scale.md. Data are random numbers of the dataset's shape, so nothing is
fetched. On CUDA a step has the scale's own size. On a processor it has few clients, or few windows where clients meet,
and time and memory grow from there in proportion.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from bench.projection import Cost, document
from fedloom.config.dataset import PanelDataset
from fedloom.config.plan import Spec
from fedloom.config.resolve import read_plan
from fedloom.config.settings import read_settings
from fedloom.data.panels.panel import Panel, edge_table
from fedloom.errors import InputError, main
from fedloom.federation.devices import choose_device
from fedloom.federation.method import Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import forecast_task
from fedloom.methods.registry import make
from fedloom.partition.panels import make_panel_partition, split_steps, window_starts
from fedloom.report.figure import MEGABYTE

ROOT = Path(__file__).resolve().parents[1]
NEVER = 10**9  # rounds between two validations of a probe


class Shape(NamedTuple):
    """Size of a dataset's panel: sensors, steps in time, directed edges."""

    sensors: int
    steps: int
    edges: int


SHAPES = {  # as published; edges as the panels here have them, about as many for the last two
    "metr-la": Shape(207, 34_272, 1_515),
    "pems-bay": Shape(325, 52_116, 2_369),
    "pems03": Shape(358, 26_208, 547),
    "pems04": Shape(307, 16_992, 340),
    "knowair": Shape(184, 11_688, 3_600),
    "beijing-prsa": Shape(12, 35_064, 100),
}


@dataclass(frozen=True)
class Size:
    """How much of a step is taken: ``clients`` side by side, ``windows`` of each in the minibatch."""

    clients: int
    windows: int


def size_of(method: Method, shape: Shape, batch: int, few: Size | None) -> Size:
    """The size of a method's probe: whole without ``few``; else few windows where clients meet, few clients else."""
    if few is None:
        return Size(shape.sensors, batch)
    if method.couples or method.pools:
        return Size(shape.sensors, min(batch, few.windows))
    return Size(min(shape.sensors, few.clients), batch)


def random_task(dataset: PanelDataset, shape: Shape, size: Size, protocol: Protocol, device: torch.device) -> Any:
    """A task of ``size.clients`` sensors of as many neighbours each as the dataset's, with at least ``size.windows``
    training windows; readings, places and edges are random."""
    settings = dataset.partition
    clients, span = size.clients, settings.history + settings.horizon
    steps = int(np.ceil((span + size.windows) / min(settings.split)))
    rng = np.random.default_rng(0)
    ids = [f"c{i:04d}" for i in range(clients)]
    every = f"{dataset.panel.interval_minutes}min"
    stamps = pd.date_range("2024-01-01", periods=steps, freq=every, name="timestamp")
    values = pd.DataFrame(rng.normal(50, 10, (steps, clients)).astype(np.float32), stamps, ids)
    nodes = pd.DataFrame(rng.uniform(30, 31, (clients, 2)), pd.Index(ids, name="id"), ["lat", "lon"])
    pairs = [(a, b) for a in range(clients) for b in range(clients) if a != b]
    wanted = min(len(pairs), round(shape.edges * clients / shape.sensors))
    chosen = [pairs[i] for i in np.sort(rng.choice(len(pairs), wanted, replace=False))] if pairs else []
    edges = edge_table([ids[a] for a, _ in chosen], [ids[b] for _, b in chosen], rng.uniform(0.1, 1, len(chosen)))
    about = {"dataset": dataset.panel.dataset, "interval_minutes": dataset.panel.interval_minutes}
    panel = Panel(values, nodes, edges, about=about | {"missing_literal": dataset.panel.missing})
    made = make_panel_partition(panel, settings)
    return forecast_task(panel, made.about, made.clients, made.windows, protocol, device)


def probe(spec: Spec, dataset: PanelDataset, shape: Shape, few: Size | None, device: torch.device) -> Cost:
    """Take one step of a run's method at its settings, after one to warm up, and project the run from it.

    Raises RuntimeError where the step leaves numbers that are not finite.
    """
    asked = Protocol(**spec["protocol"])
    method = make(spec)
    size = size_of(method, shape, asked.batch, few)
    protocol = replace(asked, batch=size.windows, batches=1, train_stride=1, validate_every=NEVER, validation_stride=1)
    whole = random_task(dataset, shape, size, protocol, device)
    before = _memory(device)
    federation = Federation(method, whole.pooled() if method.pools else whole, protocol, 0)
    state = federation.start()
    federation.step(state)
    begun = _now(device)
    federation.step(state)
    step = _now(device) - begun
    peak = _peak(device) - before
    if state.diverged is not None:
        raise RuntimeError(state.diverged)
    begun = _now(device)
    federation.validate(federation.weights(state))
    looked = (_now(device) - begun) / int(whole.sizes("validation").max())
    parts = split_steps(shape.steps, dataset.partition.split)
    counts = {
        part: len(window_starts(parts[part], dataset.partition.history, dataset.partition.horizon, False))
        for part in ("train", "validation")
    }
    larger = shape.sensors / size.clients
    return Cost(
        dataset=spec["dataset"],
        method=spec["method"],
        clients=shape.sensors,
        parameters=federation.parameters,
        batch=asked.batch,
        step_seconds=step * larger * asked.batch / size.windows,
        steps=asked.epochs * -(-(counts["train"] // asked.train_stride) // asked.batch),
        validation_seconds=looked * larger * counts["validation"] / asked.validation_stride,
        rounds=federation.rounds,
        peak_megabytes=peak * larger * asked.batch / size.windows / MEGABYTE,
        taken="" if size == Size(shape.sensors, asked.batch) else f"{size.clients} clients, {size.windows} windows",
    )


def _now(device: torch.device) -> float:
    """Seconds: of the clock on CUDA, else of this process alone, whatever else the machine does."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def _memory(device: torch.device) -> float:
    """Bytes in use now; on CUDA the peak is counted from here."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return float(torch.cuda.memory_allocated(device))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def _peak(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def in_child(*asked: Any) -> Cost:
    """``probe`` in a child, whose peak of memory is its own. Raises RuntimeError with what went wrong there."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(sender, asked))
    child.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"the probe ended with status {child.exitcode}") from None
    child.join()
    if isinstance(found, Cost):
        return found
    raise RuntimeError(found)


def _answer(sender: Connection, asked: tuple[Any, ...]) -> None:
    try:
        sender.send(probe(*asked))
    except Exception as error:
        sender.send(f"{type(error).__name__}: {error}")


def runs_of(scale: str, study: str, methods: list[str] | None) -> Iterator[tuple[Spec, PanelDataset, int]]:
    """The methods of a study that take rounds, on each dataset of a scale once, with the number of their seeds."""
    plan = read_plan(ROOT / "config", read_settings({"scale": scale, "studies": [study]}, {}))
    seeds: dict[tuple[str, str], list[int]] = {}
    for key in plan.runs:
        if key.variant == "base" and (methods is None or key.method in methods):
            seeds.setdefault((key.dataset, key.method), []).append(key.seed)
    for key, spec in plan.runs.items():
        found = seeds.get((key.dataset, key.method), [])
        dataset = plan.datasets[key.dataset]
        if key.variant != "base" or not found or key.seed != found[0] or not isinstance(dataset, PanelDataset):
            continue
        if key.dataset not in SHAPES:
            known = ", ".join(SHAPES)
            raise InputError(f"{scale}: dataset: expected one whose shape is known ({known}), found {key.dataset}")
        if make(spec).rounds(spec["protocol"]["rounds"]):
            yield spec, dataset, len(found)


def run() -> None:
    """Probe every method on every dataset, write the page; exit status 1 where one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.probe", description=__doc__)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--study", default="atlas")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--methods", nargs="+", default=None, help="all by default")
    parser.add_argument("--clients", type=int, default=4, help="of a step on a processor, where they do not meet")
    parser.add_argument("--windows", type=int, default=4, help="of a step on a processor, where clients meet")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "paper-scale.md")
    asked = parser.parse_args()
    device = choose_device(asked.device)
    on_cpu = device.type == "cpu"
    few = Size(asked.clients, asked.windows) if on_cpu else None
    if on_cpu:
        torch.set_num_threads(1)  # children are forked, which a pool of threads does not survive
    costs, failures = [], []
    for spec, dataset, seeds in runs_of(asked.scale, asked.study, asked.methods):
        call = (spec, dataset, SHAPES[spec["dataset"]], few, device)
        named = f"{spec['method']} on {spec['dataset']}"
        try:
            cost = replace(in_child(*call) if on_cpu else probe(*call), seeds=seeds)
        except RuntimeError as error:
            failures.append(named)
            print(f"{named}: {error}", file=sys.stderr, flush=True)
            continue
        costs.append(cost)
        print(f"{named}: {cost.step_seconds:.3g} s a step, {cost.hours:.3g} h a run", flush=True)
    asked.out.write_text(document(costs, device, asked.scale), encoding="utf-8")
    if failures:
        sys.exit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main(run)
