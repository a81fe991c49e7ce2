"""Is one method better than another? A paired bootstrap over nodes and over blocks of time, Holm-corrected.

Errors of neighbouring windows are anything but independent, and a storm or a holiday hits all nodes at once. So a
draw takes whole blocks of test time with replacement, the same blocks for every node and method, and nodes with
replacement, the same nodes for both methods (a two-way bootstrap, which errs on the careful side). Seeds are averaged
before methods are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from fedloom.errors import InputError

Floats = NDArray[np.float64]
Unit = Literal["pooled", "mean"]

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class BlockErrors:
    """Error sums of one method on the test part: ``sums_SCK`` over S seeds, C nodes and K blocks of time.

    ``count_CK`` readings stand behind them. ``root`` says that the metric is the root of the mean (RMSE).
    """

    sums_SCK: Floats
    count_CK: Floats
    root: bool


@dataclass(frozen=True)
class Comparison:
    """``effect`` of a method against another (negative: smaller error), its 95 % interval and two-sided p-value."""

    effect: float
    lo: float
    hi: float
    p: float


def compare(method: BlockErrors, other: BlockErrors, unit: Unit, draws: int = DRAWS, seed: int = 0) -> Comparison:
    """Compare two methods on the same nodes and blocks.

    For ``pooled`` the effect is the difference of the metric pooled over nodes, for ``mean`` the mean over nodes of
    the difference of the nodes' own metrics. The same ``seed`` gives the same draws. Raises InputError where the
    methods were not scored on the same readings, or on fewer than two blocks.
    """
    if method.count_CK.shape != other.count_CK.shape or not np.array_equal(method.count_CK, other.count_CK):
        raise InputError("paired comparison: expected both methods scored on the same readings, found different counts")
    nodes, blocks = method.count_CK.shape
    if blocks < 2:
        raise InputError(f"paired comparison: expected at least 2 blocks of time, found {blocks}")
    random = np.random.default_rng(seed)
    times_RK = random.multinomial(blocks, np.full(blocks, 1 / blocks), size=draws).astype(np.float64)
    copies_RC = random.multinomial(nodes, np.full(nodes, 1 / nodes), size=draws).astype(np.float64)

    effect = _difference(method, other, unit, np.ones((1, blocks)), np.ones((1, nodes)))[0]
    drawn = _difference(method, other, unit, times_RK, copies_RC)
    drawn = drawn[np.isfinite(drawn)]
    extreme = np.abs(drawn - effect) >= np.abs(effect)
    lo, hi = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Comparison(float(effect), float(lo), float(hi), float((1 + extreme.sum()) / (1 + len(drawn))))


def holm(p_values: list[float]) -> list[float]:
    """Correct the p-values of one family of comparisons (Holm's step-down procedure)."""
    if not p_values:
        return []
    corrected: list[float] = multipletests(p_values, method="holm")[1].tolist()
    return corrected


def _difference(method: BlockErrors, other: BlockErrors, unit: Unit, times_RK: Floats, copies_RC: Floats) -> Floats:
    return _metric(method, unit, times_RK, copies_RC) - _metric(other, unit, times_RK, copies_RC)


def _metric(errors: BlockErrors, unit: Unit, times_RK: Floats, copies_RC: Floats) -> Floats:
    """The metric [R] of R draws, each a number of copies of every block and node, averaged over seeds."""
    sums_SCR = errors.sums_SCK @ times_RK.T
    count_CR = errors.count_CK @ times_RK.T
    copies_CR = copies_RC.T
    with np.errstate(invalid="ignore", divide="ignore"):
        if unit == "pooled":
            ratio_SR = (sums_SCR * copies_CR).sum(1) / (count_CR * copies_CR).sum(0)
            return (np.sqrt(ratio_SR) if errors.root else ratio_SR).mean(0)
        ratio_SCR = sums_SCR / count_CR
        node_CR = (np.sqrt(ratio_SCR) if errors.root else ratio_SCR).mean(0)
        scored_CR = np.where(count_CR > 0, copies_CR, 0)
        return np.where(scored_CR > 0, node_CR * scored_CR, 0).sum(0) / scored_CR.sum(0)
