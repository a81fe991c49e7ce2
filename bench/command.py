"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch

from bench.ceiling import ceilings
from bench.growth import growth
from bench.heads import heads
from bench.precision import precision
from bench.problem import Setting
from bench.throughput import PEERS, throughput
from fedloom.artifacts import atomic
from fedloom.federation.allocator import keep_freed_memory
from fedloom.federation.devices import choose_device

HISTORY = 96  # steps that each head reads
MODELS = ("mlp", "gru", "atlas")
PARTS = ("throughput", "heads", "ceiling", "precision", "growth", "evaluation", "stages", "studies")


def parser() -> argparse.ArgumentParser:
    """All settings; what is named bounds what is measured, so that a part can be tried at a tiny size."""
    made = argparse.ArgumentParser(prog="python -m bench", description="Measure, and write tables and figures.")
    made.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}; all by default")
    made.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    made.add_argument("--clients", nargs="+", type=int, default=[10, 100, 207, 1000])
    made.add_argument("--batches", nargs="+", type=int, default=[32, 256])
    made.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    made.add_argument("--repeats", type=int, default=3, help="alternated runs of every program")
    made.add_argument("--rounds", type=int, default=Setting.rounds, help="counted rounds of a run")
    made.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch, and actors of Flower")
    made.add_argument("--device", default=Setting.device, choices=["cpu", "cuda"])
    made.add_argument("--heads", nargs="+", type=int, default=[78, 546], help="of a split network, 96 steps each")
    made.add_argument("--grow-clients", nargs="+", type=int, default=[100, 1000, 5000, 20000])
    made.add_argument("--grow-history", nargs="+", type=int, default=[12, 48, 192, 768])
    made.add_argument("--grow-rounds", nargs="+", type=int, default=[2, 8, 32])
    made.add_argument("--grow-seeds", nargs="+", type=int, default=[1, 2, 4])
    made.add_argument("--judged-nodes", type=int, default=325, help="of the panels that are judged as a stream")
    made.add_argument("--judged-steps", nargs="+", type=int, default=[13_000, 52_000])
    made.add_argument("--points", type=int, default=2_000_000, help="counted into hexagons")
    made.add_argument("--steps", type=int, default=34_272, help="of the panel that is read")
    made.add_argument("--datasets", nargs="+", default=["metr-la", "pems-bay", "pems04", "pems08", "regimes"])
    made.add_argument("--methods", nargs="+", default=None, help="of the dry run; all forecasting methods by default")
    made.add_argument("--seeds", type=int, default=10, help="of the dry run")
    made.add_argument("--benchmarks", type=Path, default=Path("results/benchmarks"), help="of studies that were run")
    made.add_argument("--out", type=Path, default=Path("results/bench"))
    return made


def write(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` and show it."""
    with atomic(path) as temporary:
        table.to_csv(temporary, index=False)
    print(f"{path}\n{table.to_string(index=False)}", flush=True)


def forecasting() -> list[str]:
    """The names of all methods that forecast."""
    from fedloom.methods import registry

    return [name for name in registry.names() if registry.get(name).family in (None, "forecast")]


def run() -> None:
    """Read the arguments, measure the parts that they name, write."""
    asked = parser().parse_args()
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser().error(f"parts: expected some of {', '.join(PARTS)}, found {min(unknown)!r}")
    choose_device(asked.device)
    keep_freed_memory()
    torch.set_num_threads(asked.threads)
    base = Setting(rounds=asked.rounds, device=asked.device)
    for part in asked.parts:
        measure(part, asked, base)


def measure(part: str, asked: argparse.Namespace, base: Setting) -> None:
    """Measure one part and write its table, and its figure where it has one."""
    path = asked.out / f"{part}.csv"
    if part == "throughput":
        table = throughput(asked.models, asked.clients, asked.batches, asked.peers, asked.repeats, base)
    elif part == "heads":
        table = heads(asked.heads, HISTORY, asked.batches[0], asked.repeats, torch.device(asked.device))
    elif part == "evaluation":
        from bench.evaluation import evaluation

        table = evaluation(asked.judged_nodes, asked.judged_steps, asked.device)
    elif part in ("ceiling", "precision"):
        sizes = [(model, batch, count) for model in asked.models for batch in asked.batches for count in asked.clients]
        settings = [replace(base, model=m, clients=c, batch=b) for m, b, c in sizes]
        table = ceilings(settings) if part == "ceiling" else precision(settings)
    elif part == "growth":
        along = {axis: getattr(asked, f"grow_{axis}") for axis in ("clients", "history", "rounds", "seeds")}
        table = growth(base, along)
    elif part == "stages":
        from bench.stages import stages

        table = stages(asked.points, asked.steps, asked.methods or forecasting(), asked.datasets, asked.seeds)
    else:
        from bench.studies import studies

        table = studies(asked.benchmarks)
    write(table, path)
    draw(part, table, asked.out / part)


def draw(part: str, table: pd.DataFrame, out: Path) -> None:
    """Draw a part's figure where it has one and matplotlib is installed (a bare GPU machine has none)."""
    try:
        from bench import figures
    except ModuleNotFoundError as error:
        print(f"no figure: {error}")
        return
    if hasattr(figures, part):
        getattr(figures, part)(table, out)
