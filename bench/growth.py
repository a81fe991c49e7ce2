"""Seconds and peak memory of a round against clients, history and seeds; each point in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch

from bench import engine
from bench.problem import Problem, Setting


def point(setting: Setting, seeds: int) -> dict[str, float]:
    """Seconds of a round (all seeds' together) and peak memory in MB, of this process so far."""
    seconds = 0.0
    for seed in range(seeds):
        seconds += median(engine.run(Problem(replace(setting, seed=setting.seed + seed))).seconds)
    on_device = torch.cuda.max_memory_allocated() if setting.device == "cuda" else 0
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak_megabytes": max(on_device, resident) / 1e6}


def in_own_process(setting: Setting, seeds: int) -> dict[str, float]:
    """``point`` in a fresh process, whose peak is its own."""
    told = json.dumps({"setting": asdict(setting), "seeds": seeds, "threads": torch.get_num_threads()})
    paths = os.pathsep.join(filter(None, sys.path))
    process = subprocess.run(
        [sys.executable, "-m", "bench.growth", told], env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(process.stdout)
    return found


def growth(base: Setting, along: Mapping[str, Sequence[int]]) -> pd.DataFrame:
    """One row a point along each axis (``clients``, ``history``, ``rounds``, ``seeds``), the others held at ``base``.

    ``slope`` is that of log seconds over log size along the whole axis, ``memory_slope`` the like.
    """
    tables = []
    for axis, sizes in along.items():
        rows = []
        for size in sizes:
            changed: dict[str, Any] = {} if axis == "seeds" else {axis: size}
            setting = replace(base, **changed)
            rows.append({"axis": axis, "size": size, **in_own_process(setting, size if axis == "seeds" else 1)})
            print(f"{axis} {size}: {rows[-1]['seconds']:.3g} s, {rows[-1]['peak_megabytes']:.0f} MB", flush=True)
        table = pd.DataFrame(rows)
        for name, of in (("slope", "seconds"), ("memory_slope", "peak_megabytes")):
            table[name] = slope(table["size"], table[of])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def slope(size: pd.Series, value: pd.Series) -> float:
    """Slope of the straight line through log value over log size; NaN through one point."""
    return float(np.polyfit(np.log(size), np.log(value), 1)[0]) if len(size) > 1 else float("nan")


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    print(json.dumps(point(Setting(**asked["setting"]), asked["seeds"])))
