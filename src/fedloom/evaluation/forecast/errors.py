"""Metrics of forecasts: masked and unmasked MAE, RMSE, MAPE and MSE per node, pooled and as the mean over nodes.

Every metric follows from sums per node and horizon step, which are accumulated while forecasts stream by, so that a
result does not depend on how many windows a batch holds. RMSE is the root of a pooled mean; it is never averaged over
batches or horizons.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fedloom.evaluation.forecast.conditions import HELD_OUT, MASKED, UNMASKED
from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.federation.scores import ErrorSums

METRICS = ("mae", "rmse", "mape", "mse")
HORIZONS = (3, 6, 12)
NO_LITERAL = "the raw files hold no number for a missing reading"
NOTHING_SCORED = "no observed target"

Floats = NDArray[np.float64]


class Scores:
    """Error sums of one set of weights, masked and, where the raw files' literal is a number, unmasked."""

    def __init__(
        self, clients: int, horizon: int, missing_literal: float | None, device: torch.device | str = "cpu"
    ) -> None:
        self.literal = missing_literal
        self.masked = ErrorSums(clients, horizon, device)
        self.unmasked = None if missing_literal is None else ErrorSums(clients, horizon, device)

    def add(self, some: Forecasts) -> None:
        """Add forecasts. Unmasked, a missing reading is scored as the number that the raw files hold in its place."""
        real_CBH = (some.window_CB >= 0)[..., None].expand_as(some.mask_CBH)
        self.masked.add(some.forecast_CBH, some.truth_CBH, some.mask_CBH & real_CBH)
        if self.unmasked is not None and self.literal is not None:
            filled = torch.where(some.mask_CBH, some.truth_CBH, self.literal)
            self.unmasked.add(some.forecast_CBH, filled, real_CBH)


def metric_rows(scores: Scores, nodes: list[str]) -> pd.DataFrame:
    """Return rows (unit, metric, horizon, condition, value, n, reason) for every node, ``pooled`` and ``mean``."""
    masked = _rows_of(scores.masked, nodes).assign(condition=MASKED)
    if scores.unmasked is None:
        unmasked = null_rows(nodes, scores.masked.n.shape[1], NO_LITERAL, [UNMASKED])
    else:
        unmasked = _rows_of(scores.unmasked, nodes).assign(condition=UNMASKED)
    return pd.concat([masked, unmasked], ignore_index=True)


def held_out_rows(scores: Scores, nodes: list[str]) -> pd.DataFrame:
    """Return the masked rows of ``metric_rows`` for scores of validation and test part together."""
    return _rows_of(scores.masked, nodes).assign(condition=HELD_OUT)


def null_rows(nodes: list[str], horizon: int, reason: str, conditions: Iterable[str]) -> pd.DataFrame:
    """Return the rows that ``metric_rows`` would, each null for ``reason``."""
    units = [*nodes, "pooled", "mean"]
    grid = product(units, METRICS, [name for name, _ in _horizons(horizon)], conditions)
    frame = pd.DataFrame(list(grid), columns=["unit", "metric", "horizon", "condition"])
    return frame.assign(value=np.nan, n=0, reason=reason)


def _horizons(horizon: int) -> list[tuple[str, list[int]]]:
    single = [(str(h), [h - 1]) for h in HORIZONS if h <= horizon]
    return [*single, ("all", list(range(horizon)))]


def _rows_of(sums: ErrorSums, nodes: list[str]) -> pd.DataFrame:
    fields = {name: getattr(sums, name).cpu().numpy() for name in ("n", "abs", "sq", "ape", "n_ape")}
    frames = []
    for horizon, steps in _horizons(fields["n"].shape[1]):
        per_node = {name: values[:, steps].sum(1) for name, values in fields.items()}
        pooled = {name: values.sum(keepdims=True) for name, values in per_node.items()}
        for metric in METRICS:
            of_nodes, n_nodes = _metric(metric, per_node)
            of_pooled, n_pooled = _metric(metric, pooled)
            scored = ~np.isnan(of_nodes)
            mean = of_nodes[scored].mean() if scored.any() else np.nan
            frame = pd.DataFrame({"unit": [*nodes, "pooled", "mean"], "metric": metric, "horizon": horizon})
            frame["value"] = np.concatenate([of_nodes, of_pooled, [mean]])
            frame["n"] = np.concatenate([n_nodes, n_pooled, [scored.sum()]]).astype(np.int64)
            frames.append(frame)
    rows = pd.concat(frames, ignore_index=True)
    rows["reason"] = pd.Series(NOTHING_SCORED, index=rows.index, dtype="str").where(rows["value"].isna())
    return rows


def _metric(name: str, sums: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Return a metric and the number of readings behind it, NaN where there is none."""
    numerator = sums[{"mae": "abs", "rmse": "sq", "mape": "ape", "mse": "sq"}[name]]
    n = sums["n_ape" if name == "mape" else "n"]
    ratio = np.divide(numerator, n, out=np.full_like(numerator, np.nan), where=n > 0)
    return (np.sqrt(ratio) if name == "rmse" else ratio), n
