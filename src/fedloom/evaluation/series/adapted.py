"""All that a run's model does after one epoch on a held-out set, as one table of metrics."""

from __future__ import annotations

from pathlib import Path

import torch

from fedloom.errors import InputError
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.rows import Row, as_metrics, condition, row
from fedloom.evaluation.schema import write_metrics
from fedloom.evaluation.series.anomalies import anomaly_rows
from fedloom.evaluation.series.classes import class_rows
from fedloom.evaluation.series.finetune import Adaptation, Start
from fedloom.evaluation.series.fullshot import full_shot_rows, imputed_rows
from fedloom.evaluation.series.m4 import m4_rows
from fedloom.evaluation.series.model import why_no_common_model
from fedloom.evaluation.series.targets import TARGETS, Targets, read_targets
from fedloom.federation.runs import Maker, read_run

TASKS = {
    "full_shot": ("forecast", full_shot_rows, ("mse", "mae")),
    "imputed": ("imputation", imputed_rows, ("mse", "mae")),
    "m4": ("m4", m4_rows, ("smape", "mase", "owa")),
    "classification": ("classification", class_rows, ("accuracy",)),
    "anomaly": ("anomaly", anomaly_rows, ("f1",)),
}
"""Task -> what held-out sets say that they are for, what judges it, its metrics."""

NO_SET = "no such set here: needs a mirror"


def adapt(folders: Folders, out: Path, make: Maker, settings: Adaptation, device: torch.device) -> None:
    """Write ``adapted.parquet`` of the run in ``folders`` to ``out``, in the schema of a run's metrics.

    A task without a held-out set, a diverged run and a method whose clients share no model get null rows with the
    reason. Raises InputError where no dataset with the role of targets stands beside the run's.
    """
    if TARGETS not in folders.beside:
        raise InputError(f"{folders.data}: beside: expected a dataset with the role {TARGETS!r}, found none")
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    reason = why_no_common_model(run)
    targets = read_targets(folders.beside[TARGETS], device, run.task.dtype)
    rows = _null_rows(targets, reason) if reason else adapted_rows(Start.of(run), targets, settings)
    write_metrics(as_metrics(rows, run.spec, "selected"), out / "adapted.parquet")


def adapted_rows(start: Start, targets: Targets, settings: Adaptation) -> list[Row]:
    """Return the rows of every task."""
    rows: list[Row] = []
    for task, (use, judge, metrics) in TASKS.items():
        sets = targets.of(use)
        rows += judge(start, sets, settings) if sets else _null(task, metrics, NO_SET)
    return rows


def _null_rows(targets: Targets, reason: str) -> list[Row]:
    rows: list[Row] = []
    for task, (use, _, metrics) in TASKS.items():
        rows += _null(task, metrics, reason if targets.of(use) else NO_SET)
    return rows


def _null(task: str, metrics: tuple[str, ...], reason: str) -> list[Row]:
    return [row(metric, float("nan"), 0, condition(task=task), unit="mean", reason=reason) for metric in metrics]
