"""Errors over the observed points of held-out windows, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedloom.evaluation.rows import Row, row

TOO_SHORT = "test part shorter than the horizon"
NOTHING = "no observed point to score"

NO_ERRORS = {"mse": np.nan, "mae": np.nan}


class Errors:
    """Squared and absolute errors over observed points, and their number."""

    def __init__(self) -> None:
        self.squared = self.absolute = 0.0
        self.n = 0

    def add(self, found: Tensor, truth: Tensor, scored: Tensor) -> None:
        """Add the errors at the points ``scored``; ``truth`` may be NaN elsewhere."""
        error = (found.to(torch.float64) - truth)[scored]
        self.squared += float(error.square().sum())
        self.absolute += float(error.abs().sum())
        self.n += int(scored.sum())

    def means(self) -> dict[str, float]:
        """Return mean squared and mean absolute error; NaN where nothing was scored."""
        if not self.n:
            return dict(NO_ERRORS)
        return {"mse": self.squared / self.n, "mae": self.absolute / self.n}


def mean_of(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of errors, such as those of several horizons or rates; NaN where one of them is."""
    return {metric: float(np.mean([value[metric] for value in values])) for metric in ("mse", "mae")}


def error_rows(values: Mapping[str, float], n: int, under: str, reason: str, horizon: str = "all") -> list[Row]:
    """Return a row for each error of a held-out set, with ``reason`` where it is NaN."""
    return [
        row(metric, value, n, under, unit="mean", horizon=horizon, reason=reason if np.isnan(value) else None)
        for metric, value in values.items()
    ]
