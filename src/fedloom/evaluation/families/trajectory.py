"""Judges a run on trajectories: factual fit, effects and values against the truth, off-policy values, utility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import save_file

from fedloom.artifacts import atomic
from fedloom.data.trajectories.table import read_trajectories
from fedloom.data.trajectories.truth import read_truth
from fedloom.errors import InputError
from fedloom.evaluation.causal.judge import Judge
from fedloom.evaluation.causal.rows import as_metrics, condition, row
from fedloom.evaluation.causal.sampler import read_sampler, sampler_rows
from fedloom.evaluation.causal.yardsticks import Yardsticks, read_yardsticks
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.schema import write_metrics
from fedloom.federation.runs import Maker, Run, read_run
from fedloom.federation.worlds import World

Row = dict[str, Any]
SELECTIONS = ("selected", "last")
SNAPSHOT_UNITS, SNAPSHOT_DRAWS = 200, 4  # the course of learning at a twentieth of what the final numbers cost


def evaluate(folders: Folders, out: Path, make: Maker, device: torch.device) -> None:
    """Write ``metrics.parquet`` and an empty ``diagnostics.safetensors`` of the run in ``folders`` to ``out``.

    A diverged run gets null rows with its reason. Raises InputError for a missing or broken artifact.
    """
    if folders.yardsticks is None:
        raise InputError(f"{folders.data}: yardsticks: expected their folder, found none")
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    tables = []
    if run.verdict == "diverged":
        names = ("auc", "rmse", "pehe_mse", "pehe_root", "ate_error", "value", "value_error", "tstr_auc", "tstr_rmse")
        missing = [row(name, np.nan, 0, condition(), reason=str(run.reason)) for name in names]
        tables = [as_metrics(missing, run.spec, selection) for selection in SELECTIONS]
    else:
        truth = None if folders.truth is None else read_truth(folders.truth)
        judge, known = Judge.of(run.task, read_trajectories(folders.data), truth), read_yardsticks(folders.yardsticks)
        tables = [as_metrics(_rows(judge, run, selection, known), run.spec, selection) for selection in SELECTIONS]
        if "sampler" in folders.beside:
            sampler = read_sampler(folders.beside["sampler"], folders.beside_partition("sampler"), judge.data)
            world = World(run.method, run.skeleton, run.weights("selected"), run.task)
            tables.append(as_metrics(sampler_rows(judge, world, sampler), run.spec, "selected"))
    write_metrics(pd.concat(tables, ignore_index=True), out / "metrics.parquet")
    with atomic(out / "diagnostics.safetensors") as temporary:
        save_file({}, temporary)


def _rows(judge: Judge, run: Run, selection: str, known: Yardsticks) -> list[Row]:
    world = World(run.method, run.skeleton, run.weights(selection), run.task)
    probability = judge.potentials(world, judge.task.anchors)
    rows = judge.model_rows(probability)
    if selection == "selected":  # what costs simulations or bootstraps is told of the headline weights alone
        rows += judge.window_rows(world) + judge.policy_rows(world, probability, known.propensity_NLG)
        rows += judge.use_rows(world, run.spec["seed"]) + known.rows
    else:
        rows += _snapshot_rows(judge, run)
    return rows


def _snapshot_rows(judge: Judge, run: Run) -> list[Row]:
    """Effects and values of windows by the weights of each round that was kept, with its number (from 0)."""
    rows = []
    rounds = run.method.rounds(run.spec["protocol"]["rounds"])
    for round_ in run.snapshots:
        world = World(run.method, run.skeleton, run.weights(f"round{round_}"), run.task)
        early = None if run.method.selectable(round_, rounds) else "no"
        for each in judge.window_rows(world, SNAPSHOT_DRAWS, SNAPSHOT_UNITS):
            parts = dict(part.split("=") for part in each["condition"].split(","))
            rows.append(each | {"condition": condition(**parts, round=round_, selectable=early)})
    return rows
