"""Judges a run on series: hidden stretches filled in, held-out sets without learning from them, core-sets audited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from torch import Tensor

from fedloom.artifacts import atomic
from fedloom.data.described import read_about
from fedloom.evaluation.causal.rows import as_metrics
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.schema import write_metrics
from fedloom.evaluation.series.audit import audit
from fedloom.evaluation.series.examples import filled, foretold
from fedloom.evaluation.series.foresee import Fill
from fedloom.evaluation.series.model import clients_answer, common_answer, why_no_common_model
from fedloom.evaluation.series.reconstruction import Predict, reconstruct, reconstruction_rows
from fedloom.evaluation.series.targets import TARGETS, Targets, read_targets
from fedloom.evaluation.series.zeroshot import forecast_rows, imputation_rows, unseen_rows
from fedloom.federation.runs import Maker, Run, read_run
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows

Row = dict[str, Any]
SELECTIONS = ("selected", "last")
CORE_SETS = {"core.initial", "core.learned", "core.sent", "core.size"}
"""Buffers of clients that build core-sets, as they were in the judged round."""

TOKENS_AT_ONCE = 2**16


def evaluate(folders: Folders, out: Path, make: Maker, device: torch.device) -> None:
    """Write ``metrics.parquet`` and ``diagnostics.safetensors`` of the run in ``folders`` to ``out``.

    Held-out sets are judged where the dataset has them beside it, by the selected weights alone. A diverged run gets
    the same rows, null with its reason. Raises InputError for a missing or broken artifact.
    """
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    targets = None
    if TARGETS in folders.beside:
        targets = read_targets(folders.beside[TARGETS], device, run.task.dtype)
    domains = read_about(folders.data)["domains"]
    rows = []
    diagnostics: dict[str, NDArray[Any]] = {}
    for selection in SELECTIONS:
        rows_of, found = _judge(run, selection, targets, domains)
        rows.append(as_metrics(rows_of, run.spec, selection))
        diagnostics |= found
    write_metrics(pd.concat(rows, ignore_index=True), out / "metrics.parquet")
    with atomic(out / "diagnostics.safetensors") as temporary:
        save_file(diagnostics, temporary)


def _judge(
    run: Run, selection: str, targets: Targets | None, domains: dict[str, str]
) -> tuple[list[Row], dict[str, NDArray[Any]]]:
    """Rows of the weights of a selection and, of the selected ones, what figures draw."""
    task: SeriesTask = run.task
    diverged = run.verdict == "diverged"
    weights = {} if diverged else run.weights(selection)
    predict: dict[str | None, Predict] = {None: _zeros} if diverged else clients_answer(run, weights)
    rows = reconstruction_rows(reconstruct(task, predict, TOKENS_AT_ONCE), task.ids)
    if diverged:
        rows = blank(rows, str(run.reason))
    if selection != SELECTIONS[0]:
        return rows, {}
    found = {} if diverged else filled(task, predict[None], domains)
    if targets is not None:
        reason = why_no_common_model(run)
        fill = _zeros if reason else common_answer(run, weights)
        unseen = target_rows(fill, targets, task)
        rows += blank(unseen, reason) if reason else unseen
        if not reason:
            found |= foretold(fill, targets.of("forecast"), task.length, task.patch)
    if weights.keys() >= CORE_SETS:
        of_sets, distances = audit(task, {name.removeprefix("core."): weights[name] for name in CORE_SETS})
        rows += of_sets
        found |= {f"distance/{kind}": np.ascontiguousarray(values) for kind, values in distances.items()}
    return rows, found


def target_rows(fill: Fill, targets: Targets, task: SeriesTask) -> list[Row]:
    """Return the rows of all that is asked about held-out sets without learning from them."""
    given = task.length, task.patch, TOKENS_AT_ONCE // task.tokens
    return [
        *forecast_rows(fill, targets.of("forecast"), *given),
        *imputation_rows(fill, targets.of("imputation"), *given),
        *unseen_rows(fill, targets.of("forecast"), *given),
    ]


def blank(rows: list[Row], reason: str) -> list[Row]:
    """Return the rows with those of the method itself null for ``reason``; reference rows stay."""
    emptied = {"value": float("nan"), "lo": float("nan"), "hi": float("nan"), "n": 0, "reason": reason}
    return [row if "prediction=" in row["condition"] else row | emptied for row in rows]


def _zeros(batch: SeriesWindows, *_: Tensor) -> Tensor:
    """Stands for an answer that there is not, where only the reference rows are kept."""
    return torch.zeros_like(batch.x)
