"""Evaluates a run: its metrics, and the diagnostics that tests and figures need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fedloom.artifacts import atomic
from fedloom.data.panels.panel import read_panel
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.blocks import BlockSums
from fedloom.evaluation.forecast.errors import (
    HELD_OUT,
    MASKED,
    UNMASKED,
    Batch,
    Scores,
    held_out_rows,
    metric_rows,
    null_rows,
)
from fedloom.evaluation.forecast.truth import BestPossible, Truth, read_truth
from fedloom.evaluation.schema import IDENTITY, METRICS, write_metrics
from fedloom.federation.inference import Forecast, forecasts
from fedloom.federation.protocol import Protocol
from fedloom.federation.runs import Maker, Run, read_run
from fedloom.federation.tasks.forecast import ForecastTask

SELECTIONS = ("selected", "last")
UNASSIGNED = 255


class Judged:
    """What one set of weights earns on the test part of ``task``, window by window as forecasts come in."""

    def __init__(self, task: ForecastTask, missing_literal: float | None, truth: Truth | None) -> None:
        self.task, self.truth = task, truth
        self.starts_CW = task.starts["test"]
        self.counts_C = task.counts["test"].to(task.device)
        self.scores = Scores(len(task.ids), task.horizon, missing_literal, task.device)
        self.blocks = BlockSums(self.starts_CW, task.slots_per_day)
        self.best = None if truth is None else BestPossible(truth, task.horizon)
        self.assignment_CW = torch.full_like(self.starts_CW, -1)

    def add(self, forecast: Forecast) -> None:
        """Score the forecasts of some windows."""
        windows = forecast.windows
        batch = batch_of(forecast, self.counts_C)
        window_CB = batch.window_CB
        self.scores.add(batch)
        self.blocks.add(batch)
        if self.best is not None:
            self.best.add(batch, self.starts_CW[:, windows], self.task.history)
        if "assignment" in forecast.diagnostics:
            assigned = forecast.diagnostics["assignment"].to(self.assignment_CW.dtype)
            self.assignment_CW[:, windows] = torch.where(window_CB >= 0, assigned, -1)

    @property
    def assigned(self) -> bool:
        """Whether the method assigns windows to prototypes."""
        return bool((self.assignment_CW >= 0).any())

    def rows(self) -> pd.DataFrame:
        """Return all metric rows of these weights."""
        tables = [metric_rows(self.scores, self.task.ids)]
        if self.best is not None:
            tables.append(self.best.rows())
        if self.truth is not None and self.assigned:
            tables.append(self.truth.information(self.assignment_CW, self.starts_CW, self.task.history))
        return pd.concat(tables, ignore_index=True)

    def diagnostics(self) -> dict[str, NDArray[Any]]:
        """Return error sums by block [C, K] and, where there are prototypes, the assignment [C, W] of each window.

        255 marks a window that a node does not have; ``starts`` [C, W] are the windows' first input steps.
        """
        found = {"abs_error": self.blocks.abs, "sq_error": self.blocks.sq, "count": self.blocks.n}
        if self.assigned:
            found["assignment"] = self.assignment_CW.masked_fill(self.assignment_CW < 0, UNASSIGNED).to(torch.uint8)
            found["starts"] = self.starts_CW.to(torch.int32)
        return {name: np.ascontiguousarray(values.cpu().numpy()) for name, values in found.items()}


def batch_of(forecast: Forecast, counts_C: torch.Tensor) -> Batch:
    """Return forecasts as they are scored; a client with ``counts_C`` windows has none of a higher number."""
    windows = forecast.windows
    window_CB = torch.where(windows < counts_C[:, None], windows, -1)
    return Batch(forecast.forecast_CBH, forecast.truth_CBH, forecast.mask_CBH, window_CB)


def judge(
    forecasts: Iterable[Forecast], task: ForecastTask, missing_literal: float | None, truth: Truth | None
) -> Judged:
    """Score a stream of forecasts of all test windows of ``task``; batches of any size give the same result."""
    judged = Judged(task, missing_literal, truth)
    for forecast in forecasts:
        judged.add(forecast)
    return judged


def evaluate(folders: Folders, out: Path, make: Maker, device: torch.device) -> None:
    """Write ``metrics.parquet`` and ``diagnostics.safetensors`` of the run in ``folders`` to ``out``.

    A diverged run gets the same rows of errors, each null with its reason, and no diagnostics. Raises InputError for a
    missing or broken artifact.
    """
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    panel = read_panel(folders.data)
    two_parts = json.loads((folders.partition / "partition.json").read_text(encoding="utf-8")).get("two_parts", False)
    whole = _whole(run, folders) if two_parts and run.verdict != "diverged" else None
    diagnostics: dict[str, NDArray[Any]] = {}
    tables = []
    for selection in SELECTIONS:
        if run.verdict == "diverged":
            conditions = [MASKED, UNMASKED, *([HELD_OUT] if two_parts else [])]
            rows = null_rows(run.task.ids, run.task.horizon, str(run.reason), conditions)
        else:
            found = forecasts(run.method, run.skeleton, run.weights(selection), run.task)
            held_out = None if whole is None else _HeldOut(run, whole, selection)
            heard = found if held_out is None else held_out.hear(found)
            judged = judge(heard, run.task, panel.report["missing_literal"], read_truth(panel, run.task.ids))
            rows = judged.rows()
            if held_out is not None:
                rows = pd.concat([rows, held_out.rows()], ignore_index=True)
            diagnostics = diagnostics or judged.diagnostics() | _graph(run)
        tables.append(rows.assign(selection=selection))
    write_metrics(of_run(pd.concat(tables, ignore_index=True), run.spec), out / "metrics.parquet")
    with atomic(out / "diagnostics.safetensors") as temporary:
        save_file(diagnostics, temporary)


def _graph(run: Run) -> dict[str, NDArray[Any]]:
    """Return the edges [2, E] (places of senders, of receivers) along which clients of a coupled method exchanged."""
    if not run.method.couples or run.method.central:
        return {}
    return {"edges": np.ascontiguousarray(run.method.edges(run.task).cpu().numpy().astype(np.int32))}


def _whole(run: Run, folders: Folders) -> ForecastTask:
    """Return the run's task with every window of the validation part, of which its own may hold only some."""
    protocol = replace(Protocol(**run.spec["protocol"]), validation_stride=1)
    return ForecastTask.read(folders.data, folders.partition, protocol, run.task.device)


class _HeldOut:
    """Scores of all windows that training does not see: the test part, as it streams by, and the validation part."""

    def __init__(self, run: Run, task: ForecastTask, selection: str) -> None:
        self.run, self.task, self.selection = run, task, selection
        self.scores = Scores(len(self.task.ids), self.task.horizon, None, self.task.device)

    def hear(self, stream: Iterable[Forecast]) -> Iterator[Forecast]:
        """Score the forecasts of the test part on their way to others."""
        for forecast in stream:
            self.scores.add(batch_of(forecast, self.task.counts["test"].to(self.task.device)))
            yield forecast

    def rows(self) -> pd.DataFrame:
        """Return the rows, once the test part has been heard."""
        weights = self.run.weights(self.selection)
        for forecast in forecasts(self.run.method, self.run.skeleton, weights, self.task, "validation"):
            self.scores.add(batch_of(forecast, self.task.counts["validation"].to(self.task.device)))
        return held_out_rows(self.scores, self.task.ids)


def of_run(rows: pd.DataFrame, spec: dict[str, Any], split: str = "test") -> pd.DataFrame:
    """Return ``rows`` as the table of metrics has them, under the identity of the run that ``spec`` describes."""
    whole = rows.assign(**{name: spec[name] for name in IDENTITY}, split=split, lo=np.nan, hi=np.nan)
    return whole[list(METRICS.columns)].astype({"seed": "int64", "n": "int64", "reason": "str"})
