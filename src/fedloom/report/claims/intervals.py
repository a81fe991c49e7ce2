"""Effects between numbers of runs, and how sure they are: paired draws of seeds, units and blocks of time.

Errors of neighbouring windows go together, and so do those of one storm at all sensors: as in the tests of tables a
draw takes whole blocks of time, the same for all runs and clients, and clients, the same for all runs. It takes seeds
too where there are several. With but a few units, or nothing but seeds, the interval is Student's over their own
effects, which is honest about few of them; of fewer than three there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from fedloom.evaluation.forecast.significance import DRAWS, LEVEL
from fedloom.report.claims.evidence import Floats, Sample
from fedloom.report.claims.settings import Effect

LEAST_UNITS = 6
"""Draws of fewer say nothing: that all of them point one way happens by chance, too (2 / 2^5 = 6 %)."""

LEAST_OF_STUDENT = 3
"""Two have one degree of freedom, at which an interval reaches 12.7 standard errors either way: it says nothing."""

COUNTED = "counted"
"""In place of pairs: nothing was sampled, and bounds are the least and the largest of the seeds."""

Of = Callable[[Sequence[Floats]], Floats]
"""From the values of several numbers, arrays of one shape, to their effect."""


@dataclass(frozen=True)
class Estimate:
    """An ``effect`` and ``drawn`` values of it, over how many ``seeds`` and ``pairs``, or ``why`` there are none."""

    effect: float
    drawn: Floats | None
    seeds: int
    pairs: str
    why: str = ""
    student: tuple[float, float] | None = None  # standard error and degrees of freedom

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval of the effect; without bounds where there is nothing to draw."""
        if self.student is not None:
            reach = self.student[0] * float(stats.t.ppf((1 + level) / 2, self.student[1]))
            return self.effect - reach, self.effect + reach
        if self.drawn is None:
            return -np.inf, np.inf
        if self.pairs == COUNTED:
            return float(self.drawn.min()), float(self.drawn.max())
        lo, hi = np.quantile(self.drawn, [(1 - level) / 2, (1 + level) / 2])
        return float(lo), float(hi)

    def reaches_across(self, bound: float) -> bool:
        """Whether the bound lies inside the interval, or at its end."""
        lo, hi = self.interval()
        return lo <= bound <= hi


def paired(samples: Sequence[Sample]) -> list[Sample]:
    """The samples on the seeds and units that all of them have; without units where these are not the same readings.

    A number of clients meets one of other units, such as draws of noise, in each of these.
    """
    keyed = [each for each in samples if each.keyed]
    if keyed:
        samples = [each if each.keyed else each.on_each(keyed[0].units) for each in samples]
    seeds = [s for s in samples[0].seeds if all(s in each.seeds for each in samples)]
    units = [u for u in samples[0].units if all(u in each.units for each in samples)]
    if not seeds:
        return []
    if _kept(samples):
        return [each.of(seeds, each.units) for each in samples]
    cut = [each.of(seeds, units or each.units) for each in samples]
    same = bool(units) and all(
        each.count_CK.shape == cut[0].count_CK.shape and np.array_equal(each.count_CK, cut[0].count_CK) for each in cut
    )
    return cut if same else [each.without_units() for each in cut]


def estimate(samples: Sequence[Sample], of: Of) -> Estimate:
    """The effect between paired samples, and draws of it."""
    seeds, units, blocks = samples[0].shape
    effect = float(of([np.array([each.value]) for each in samples])[0])
    if all(each.counted for each in samples):
        every = of([each.sums_SCK[:, 0, 0] for each in samples])
        return Estimate(effect, every, seeds, COUNTED)
    if _kept(samples):
        drawn = of([_mean_of_drawn_seeds(each.drawn_SR) for each in samples if each.drawn_SR is not None])
        drawn = drawn[np.isfinite(drawn)]
        return (
            Estimate(effect, drawn, seeds, "clients") if len(drawn) else Estimate(effect, None, seeds, "", "no draws")
        )
    if max(units, blocks) >= LEAST_UNITS:
        drawn = of([_drawn(each) for each in samples])
        drawn = drawn[np.isfinite(drawn)]
        pairs = " × ".join(f"{n} {what}" for n, what in ((units, "units"), (blocks, "blocks")) if n > 1)
        return Estimate(effect, drawn, seeds, pairs) if len(drawn) else Estimate(effect, None, seeds, pairs, "no draws")
    if max(seeds, units) < LEAST_OF_STUDENT:
        there = " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((seeds, "seed"), (units, "unit")))
        return Estimate(effect, None, seeds, "", f"{there}: fewer than {LEAST_OF_STUDENT}, too few for an interval")
    if seeds < LEAST_OF_STUDENT:
        return Estimate(effect, None, seeds, f"{units} units", student=_error(of([_by_unit(each) for each in samples])))
    every = of([each.without_units().sums_SCK[:, 0, 0] for each in samples])
    return Estimate(effect, None, seeds, f"{seeds} seeds", student=_error(every))


def _kept(samples: Sequence[Sample]) -> bool:
    """Whether evaluation kept draws of all of these numbers, and as many of each."""
    counts = {None if each.drawn_SR is None else each.drawn_SR.shape[1] for each in samples}
    return len(counts) == 1 and None not in counts


def _mean_of_drawn_seeds(drawn_SR: Floats) -> Floats:
    """The number [R] of as many seeds as there are, drawn for each draw and alike for all numbers."""
    picked_SR = np.random.default_rng(0).integers(0, len(drawn_SR), drawn_SR.shape)
    return np.asarray(drawn_SR[picked_SR, np.arange(drawn_SR.shape[1])].mean(0))


def effect_of(kind: Effect, x: Sequence[float] = ()) -> Of:
    """The function that makes the effect; ``x`` are the places of a series, one for each sample."""
    return {
        "relative": lambda v: _divided(v[0] - v[1], v[1]),
        "difference": lambda v: v[0] - v[1],
        "ratio": lambda v: _divided(v[0], v[1]),
        "value": lambda v: v[0],
        "slope": lambda v: _line(x, v)[0],
        "intercept": lambda v: _line(x, v)[1],
        "r2": lambda v: _line(x, v)[2],
        "power": lambda v: _line(np.log(x).tolist(), np.log(v))[0],
    }[kind]


def _by_unit(sample: Sample) -> Floats:
    """The number of each unit [C]."""
    ratio_SC = _divided(sample.sums_SCK.sum(2), sample.count_CK.sum(1))
    return np.asarray((np.sqrt(ratio_SC) if sample.root else ratio_SC).mean(0))


def _error(values: Floats) -> tuple[float, float]:
    """Standard error of the mean of a few values, and its degrees of freedom."""
    return float(values.std(ddof=1) / np.sqrt(len(values))), len(values) - 1.0


def _divided(over: Floats, under: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return over / under


def _line(x: Sequence[float], values: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Slope, intercept and share of explained variance of the least-squares line, for each draw."""
    at_X, found_XR = np.array(x), np.stack(values)
    centred_X, centred_XR = at_X - at_X.mean(), found_XR - found_XR.mean(0)
    slope_R = centred_X @ centred_XR / (centred_X @ centred_X)
    intercept_R = found_XR.mean(0) - slope_R * at_X.mean()
    left_XR = centred_XR - centred_X[:, None] * slope_R
    return slope_R, intercept_R, 1 - _divided((left_XR**2).sum(0), (centred_XR**2).sum(0))


def _drawn(sample: Sample) -> Floats:
    """The number [R] of R draws; the same shape gives the same draws."""
    copies_RS, copies_RC, copies_RK = _copies(*sample.shape)
    sums_SCR = sample.sums_SCK @ copies_RK.T
    count_CR = sample.count_CK @ copies_RK.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_SR = (sums_SCR * copies_RC.T).sum(1) / (count_CR * copies_RC.T).sum(0)
        value_SR = np.sqrt(ratio_SR) if sample.root else ratio_SR
    return (value_SR * copies_RS.T).sum(0) / copies_RS.sum(1)


@cache
def _copies(seeds: int, units: int, blocks: int) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng(0)
    drawn = [random.multinomial(n, np.full(n, 1 / n), size=DRAWS) for n in (blocks, units, seeds)]
    copies_RK, copies_RC, copies_RS = (each.astype(np.float64) for each in drawn)
    return copies_RS, copies_RC, copies_RK
