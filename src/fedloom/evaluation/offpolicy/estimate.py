"""From sums to estimates: value, interval, how much of the log supports it, and where it says nothing, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.federated import Upload, bin_edges
from fedloom.evaluation.offpolicy.steps import Estimator

Floats = NDArray[np.float64]

LEVEL = 0.95
LEAST_ESS = 30.0
MOST_CLIPPED = 0.1
MODEL_BASED = ("dm", "dr", "sndr", "pddr")
MODEL_ONLY = ("dm",)
"""Estimators that use no weights, so that no lack of support can make them null. They say what the model believes."""


@dataclass(frozen=True)
class Support:
    """What of the log follows a policy: rows in all and matching ones, effective sample size (Σw)² / Σw².

    largest_weight: upper edge of the highest bin with a weight in it (exact weights are propensities and stay with the
    clients), but never above what clipping allows. clipped: share of matching rows whose weight a bound changed.
    """

    rows: int
    matches: int
    ess: float
    largest_weight: float
    clipped: float
    one_outcome: bool

    @property
    def reason(self) -> str | None:
        """Why an estimate from these rows would say nothing; None where it says something."""
        if not self.rows:
            return "too_short"
        if not self.matches:
            return "no_match"
        if self.ess < LEAST_ESS:
            return "low_ess"
        if self.clipped > MOST_CLIPPED:
            return "clipped"
        return "no_outcome" if self.one_outcome else None


@dataclass(frozen=True)
class Estimate:
    """``value`` with its interval and the ``drawn`` values behind that, NaN with a ``reason`` where the log does not
    support it.
    """

    value: float
    lo: float
    hi: float
    reason: str | None
    drawn: Floats | None = None


def support(sent: Upload, bound: float = np.inf) -> Support:
    """Return what supports an estimate; ``bound`` is the largest weight that clipping allows."""
    totals, squares = sent.totals, sent.squares
    rows, matches = int(totals["rows"]), int(totals["matches"])
    if not matches:
        return Support(rows, 0, 0.0, 0.0, 0.0, True)
    ess = float(totals["w"] ** 2 / squares["w"])
    largest = min(float(bin_edges()[np.flatnonzero(sent.bins).max()]), bound)
    # The sum of squares is the square of the mean, times the count, only where all outcomes are one.
    spread = squares["outcome"] * matches - totals["outcome"] ** 2
    one_outcome = bool(spread <= 1e-9 * max(1.0, float(totals["outcome"] ** 2)))
    return Support(rows, matches, ess, largest, float(totals["clipped"]) / matches, one_outcome)


def estimate(sent: Upload, estimators: Mapping[str, Estimator]) -> dict[str, Estimate]:
    """Return every estimate that ``sent`` has the terms for, with its percentile interval over bootstrap draws."""
    modelled = "q" in sent.totals or "v" in sent.totals
    unsupported = support(sent).reason
    found: dict[str, Estimate] = {}
    for name, estimator in estimators.items():
        if name in MODEL_BASED and not modelled:
            continue
        reason = None if name in MODEL_ONLY and unsupported != "too_short" else unsupported
        if reason is not None:
            found[name] = Estimate(np.nan, np.nan, np.nan, reason)
            continue
        drawn = estimator(sent.drawn)
        found[name] = Estimate(float(estimator(sent.totals)), *interval(drawn), None, drawn)
    return found


def interval(drawn_R: Floats) -> tuple[float, float]:
    """Return the percentile interval of R bootstrap draws; a draw without a value (no weight in it) says nothing."""
    lo, hi = np.quantile(drawn_R[np.isfinite(drawn_R)], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(lo), float(hi)
