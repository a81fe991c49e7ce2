"""How the M4 competition scores forecasts: sMAPE, MASE, and OWA against Naive 2 (Makridakis et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIGNIFICANT = 1.645
"""Two-sided 90 % point of the normal distribution, for the competition's test for a season."""


def smape(truth_H: Floats, found_H: Floats) -> float:
    """Return the mean of 200 |y - f| / (|y| + |f|), in percent; a step where both are 0 counts as 0."""
    size = np.abs(truth_H) + np.abs(found_H)
    ratio = np.divide(200 * np.abs(truth_H - found_H), size, out=np.zeros_like(size), where=size > 0)
    return float(ratio.mean())


def mase(past_T: Floats, truth_H: Floats, found_H: Floats, season: int) -> float:
    """Return the mean absolute error in units of what repeating the last season errs in the past.

    NaN where the past never moves from season to season.
    """
    steps = max(1, season)
    unit = float(np.abs(past_T[steps:] - past_T[:-steps]).mean())
    return float(np.abs(truth_H - found_H).mean()) / unit if unit > 0 else float("nan")


def owa(smapes: Sequence[float], mases: Sequence[float]) -> float:
    """Return the mean of two ratios: of sMAPE and of MASE, a method's mean over series by that of Naive 2.

    ``smapes`` and ``mases`` hold (method, Naive 2).
    """
    return (smapes[0] / smapes[1] + mases[0] / mases[1]) / 2


def naive2(past_T: Floats, horizon: int, season: int) -> Floats:
    """Return the last value of the seasonally adjusted past, with the seasonal pattern put back.

    The pattern is that of a multiplicative decomposition by a centred moving average. It is left out where the
    autocorrelation at the season's lag is not significant at 90 %, as in the competition, or the past is not positive.
    """
    if season <= 1 or len(past_T) < 3 * season or past_T.min() <= 0 or not is_seasonal(past_T, season):
        return np.repeat(past_T[-1], horizon)
    pattern = seasonal_pattern(past_T, season)
    first = len(past_T)
    adjusted = past_T[-1] / pattern[(first - 1) % season]
    found: Floats = adjusted * pattern[(first + np.arange(horizon)) % season]
    return found


def is_seasonal(past_T: Floats, season: int) -> bool:
    """Return whether the autocorrelation at lag ``season`` exceeds what the smaller lags would explain."""
    centred = past_T - past_T.mean()
    total = float((centred**2).sum())
    if total == 0:
        return False
    r = np.array([float((centred[lag:] * centred[:-lag]).sum()) / total for lag in range(1, season + 1)])
    limit = SIGNIFICANT * np.sqrt((1 + 2 * (r[:-1] ** 2).sum()) / len(past_T))
    return bool(abs(r[-1]) > limit)


def seasonal_pattern(past_T: Floats, season: int) -> Floats:
    """Return multiplicative seasonal factors [season] with mean 1; entry i belongs to points i, i + season, ..."""
    weights = np.ones(season) / season
    if season % 2 == 0:
        weights = np.convolve(weights, [0.5, 0.5])
    trend = np.convolve(past_T, weights, mode="valid")
    offset = (len(past_T) - len(trend)) // 2
    ratio = past_T[offset : offset + len(trend)] / trend
    place = (offset + np.arange(len(trend))) % season
    pattern = np.array([ratio[place == i].mean() for i in range(season)])
    found: Floats = pattern / pattern.mean()
    return found
