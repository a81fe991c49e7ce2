"""A straight line through points, and how sure its slope is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Slope:
    """A line: slope, intercept, and the slope's 95 % interval (NaN below three points)."""

    slope: float
    intercept: float
    lo: float
    hi: float


def regress(x_N: Floats, y_N: Floats) -> Slope | None:
    """Return the least-squares line of y on x, errors normal; None where there are fewer than two different x."""
    if len(set(x_N)) < 2:
        return None
    u = x_N - x_N.mean()
    spread = float((u**2).sum())
    slope = float((u * y_N).sum()) / spread
    intercept = float(y_N.mean() - slope * x_N.mean())
    freedom = len(x_N) - 2
    if freedom < 1:
        return Slope(slope, intercept, np.nan, np.nan)
    residual = float(((y_N - intercept - slope * x_N) ** 2).sum()) / freedom
    margin = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * (residual / spread) ** 0.5
    return Slope(slope, intercept, slope - margin, slope + margin)
