"""Client-samples a second of the engine and of what a user would run instead, in turn, after they prove equal."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import pandas as pd
import torch

from bench.problem import Problem, Setting, Timing
from fedloom.errors import InputError

ENGINE = "engine"
PEERS = {"loop": "bench.loop", "pfl": "bench.pfl_backend", "flower": "bench.flower"}
NEEDS = {"pfl": "pfl", "flower": "flwr"}
EQUAL = 1e-5  # largest difference between any two weights after all rounds: who is further off is not timed


def runner(name: str) -> Any:
    """The function that runs a program. Raises InputError where its package is not installed."""
    package = NEEDS.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        raise InputError(f"--peers: {name}: expected the environment of make bench, found no {package}")
    return importlib.import_module(PEERS.get(name, f"bench.{name}")).run


def apart(ours: Timing, theirs: Timing) -> float:
    """The largest difference between two programs' weights."""
    return max(float((ours.weights[n].cpu() - theirs.weights[n].cpu()).abs().max()) for n in ours.weights)


def compare(setting: Setting, peers: Sequence[str], repeats: int) -> pd.DataFrame:
    """One row a program: the median round in seconds over ``repeats`` alternated runs, and what follows from it.

    ``times_engine`` is how many times the engine's median round the program's is, ``apart`` the distance of its weights
    from the engine's. Raises InputError where that exceeds ``EQUAL``.
    """
    problem = Problem(setting)
    rows = {name: runner(name) for name in (ENGINE, *peers)}
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    distance = dict.fromkeys(rows, 0.0)
    for _ in range(repeats):
        found = {name: run(problem) for name, run in rows.items()}
        for name, timing in found.items():
            seconds[name] += timing.seconds
            distance[name] = max(distance[name], apart(found[ENGINE], timing))
            if not distance[name] <= EQUAL:
                raise InputError(f"{name}: weights: expected the engine's within {EQUAL}, found {distance[name]:.2g}")
    unit = median(seconds[ENGINE])
    work = setting.clients * setting.samples
    return pd.DataFrame(
        {
            "model": setting.model, "clients": setting.clients, "batch": setting.batch, "steps": setting.steps,
            "device": setting.device, "threads": torch.get_num_threads(), "program": name,
            "rounds": len(taken), "seconds": median(taken), "least_seconds": min(taken),
            "samples_per_second": work / median(taken), "times_engine": median(taken) / unit, "apart": distance[name],
        }
        for name, taken in seconds.items()
    )  # fmt: skip


def throughput(
    models: Sequence[str], clients: Sequence[int], batches: Sequence[int], peers: Sequence[str],
    repeats: int, base: Setting,
) -> pd.DataFrame:  # fmt: skip
    """``compare`` at every combination of the settings, which are told as they are reached."""
    tables = []
    for model in models:
        for batch in batches:
            for count in clients:
                setting = replace(base, model=model, clients=count, batch=batch)
                tables.append(compare(setting, peers, repeats))
                print(tables[-1][["model", "clients", "batch", "program", "times_engine"]].to_string(index=False))
    return pd.concat(tables, ignore_index=True)
