"""The stages around training: points to hexagons, windows, panels from disk, the fixed cost of a step, dry runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml

from bench.ceiling import best_seconds
from bench.panels import noisy_panel
from bench.problem import Problem, Setting
from fedloom.data.panels.panel import read_panel, write_panel
from fedloom.data.points.blocks import Points, Tally
from fedloom.data.points.hexagons import hexagon_table
from fedloom.data.points.settings import Hexagons

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("Snakefile", "workflow", "profiles", "config", "scripts", "src")
BLOCK = 2**18  # points that a reader hands over at once
SCALE = "bench"
STARTS = 3  # of each script: the first may find cold files


def row(stage: str, what: str, amount: float, seconds: float) -> dict[str, Any]:
    """One line of the table: ``amount`` of ``what`` in so many seconds."""
    return {"stage": stage, "what": what, "amount": amount, "seconds": seconds, "per_second": amount / seconds}


def hexagons(points: int) -> dict[str, Any]:
    """Points of 500 vehicles that stroll through a city for a fortnight, counted by cell and bin."""
    rng = np.random.default_rng(0)
    minutes = 14 * 24 * 60
    first = pd.Timestamp("2024-01-01")
    blocks = []
    for begin in range(0, points, BLOCK):
        n = min(BLOCK, points - begin)
        moment = np.sort(rng.integers(0, minutes * 60, n)) + int(first.timestamp())
        lat, lon = 37.77 + rng.normal(0, 0.02, n), -122.42 + rng.normal(0, 0.02, n)
        blocks.append(Points(rng.integers(0, 500, n), moment, lat, lon))
    end = str(first + pd.Timedelta(minutes=minutes))
    settings = Hexagons(start=str(first), end=end, box=(37.0, -123.0, 38.5, -121.5))
    begun = time.perf_counter()
    hexagon_table(blocks, settings, 30, None, Tally(points=points), "bench")
    return row("points to hexagons", "points", points, time.perf_counter() - begun)


def windows(setting: Setting) -> dict[str, Any]:
    """Windows of all clients gathered into a minibatch."""
    problem = Problem(setting)
    rows = torch.arange(setting.clients, device=problem.task.device)
    numbers = problem.order(0)[:, : setting.batch]
    seconds = best_seconds(lambda: problem.task.batch("train", rows, numbers), problem.task.device)
    return row("windows", "windows", setting.clients * setting.batch, seconds)


def panel(steps: int, nodes: int) -> dict[str, Any]:
    """A panel read back from disk and checked; its size is that of its readings in memory."""
    made = noisy_panel(nodes, steps)
    with TemporaryDirectory() as folder:
        write_panel(made, Path(folder))
        begun = time.perf_counter()
        read_panel(Path(folder))
        return row("panel from disk", "MB", made.values.to_numpy().nbytes / 1e6, time.perf_counter() - begun)


def fixed(script: Path) -> dict[str, Any]:
    """What a step costs before it does anything: the interpreter, its imports, its command line."""
    taken = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        subprocess.run([sys.executable, str(script), "--help"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - begun)
    return row(f"start of {script.stem}", "jobs", 1, median(taken))


def dry_run(methods: list[str], datasets: list[str], seeds: int) -> dict[str, Any]:
    """A dry run from nothing of the first study's federation: all methods on all datasets."""
    groups = {"main": [{"dataset": d, "methods": methods, "seeds": seeds} for d in datasets]}
    scale = {"protocol": {"rounds": 1}, "studies": {"atlas": {"model": {"encoder": "compact"}, "groups": groups}}}
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for part in PROJECT:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy2(ROOT / part, root)
        (root / "config" / "scales" / f"{SCALE}.yaml").write_text(yaml.safe_dump(scale))
        asked = ["-n", "--quiet", "--cores", "2", "--config", f"scale={SCALE}"]
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "snakemake", *asked], cwd=root, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
    return row("dry run", "runs", len(methods) * len(datasets) * seeds, seconds)


def stages(points: int, steps: int, methods: list[str], datasets: list[str], seeds: int) -> pd.DataFrame:
    """One row a stage; ``steps`` is the length of the panel, of as many nodes as the default setting has clients."""
    rows = [hexagons(points), windows(Setting()), panel(steps, Setting().clients)]
    rows += [fixed(script) for script in sorted((ROOT / "scripts").glob("*.py"))]
    rows.append(dry_run(methods, datasets, seeds))
    return pd.DataFrame(rows)
