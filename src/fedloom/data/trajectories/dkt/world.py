"""The logged world: who the students are, how a site chooses their items, and the log that this leaves.

The logging policy of unit i at a context A (past success) and site s is, over the items a,

    (1 - eps - kappa) softmax_a(popularity_s + x_i B) + kappa (g [a = on] + (1 - g) [a = off]) + eps / J
    g = sigmoid(confounding * slope_s * (A - .65) / .15 + tilt_s + x_i1 / 2 + hidden * u_i)

Successful students get the harder anchor more often: that is the confounding. The policy depends on covariates, context
and site alone and the site moves actions, not outcomes, so ignorability holds given covariates and history, unless
``hidden`` is above 0. Every draw is keyed by (seed, site of randomness, unit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom.data.trajectories.dkt.noise import Array, Ints, normal, uniform
from fedloom.data.trajectories.dkt.oracle import Oracle, State, shipped, sigmoid
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.simulator import abilities, covariates

EXPLORE = 0.2  # eps, spread over all items
ANCHORED = 0.3  # kappa, spent on the two anchors
DIRECTIONS = 4  # of the sites' outcome shifts


@dataclass(frozen=True)
class Students:
    """What never changes about N units.

    units: ids [N]. x: [N, dx] covariates. site: [N]. hidden: [N] the unseen confounder. shift: [N, J] added to the
    oracle's logits. base: [N, J] the part of the logging policy that no context moves.
    """

    units: Ints
    x: Array
    site: Ints
    hidden: Array
    shift: Array
    base: Array

    def take(self, rows: Ints) -> Students:
        """Return the students at positions ``rows``, which may repeat."""
        return Students(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Moment:
    """Where N students stand: ``step`` items answered, ``right`` [N] of them right, and what the oracle remembers."""

    step: int
    right: Ints
    state: State

    @property
    def context(self) -> Array:
        """The context at the coming item, [N]."""
        return mean_so_far(self.right, self.step)

    def take(self, rows: Ints) -> Moment:
        """Return the moments of positions ``rows``, which may repeat."""
        return replace(self, right=self.right[rows], state=self.state.take(rows))


def mean_so_far(right: Ints, step: int) -> Array:
    """Return the mean of a Beta(1, 1) prior after ``right`` [N] right answers to ``step`` items."""
    return np.asarray((1.0 + right) / (2.0 + step), dtype=np.float64)


class World:
    """Students, sites and the law of their answers."""

    def __init__(self, settings: DktSynth, oracle: Oracle | None = None) -> None:
        """Draw the sites; ``oracle`` is the shipped one unless another is given."""
        self.settings = settings
        self.oracle = oracle or shipped()
        self.off, self.on = self.oracle.anchors
        seed, sites, items = settings.seed, range(settings.sites), self.oracle.items
        self._popularity = 0.5 * normal(seed, "popularity", sites, items)
        self._taste = 0.3 * normal(seed, "taste", range(self.oracle.mixing.shape[1]), items)
        self._slope = 1.0 + uniform(seed, "slope", sites)
        self._tilt = 0.6 * normal(seed, "tilt", sites)
        # Gauss-Hermite quadrature of the hidden confounder's normal law, one point where it is of no effect.
        nodes, weights = np.polynomial.hermite_e.hermegauss(21 if settings.hidden else 1)
        self._levels = list(zip(nodes, weights / weights.sum(), strict=True))
        lean, loading = normal(seed, "lean", sites, DIRECTIONS), normal(seed, "loading", range(items), DIRECTIONS)
        self._outcome = settings.site_outcome * np.einsum("sd,jd->sj", lean, loading) / np.sqrt(DIRECTIONS)

    def students(self, units: Ints) -> Students:
        """Return the students of ids ``units`` [N]; each depends on its own id alone."""
        seed, oracle = self.settings.seed, self.oracle
        x = covariates(seed, units, abilities(seed, units), oracle.mixing)
        site = (uniform(seed, "site", units) * self.settings.sites).astype(np.int64)
        hidden = normal(seed, "hidden", units)
        # Sums in fixed order: a matrix product may round differently for other numbers of rows.
        liking = self._popularity[site] + sum(x[:, k, None] * self._taste[k] for k in range(x.shape[1]))
        weight = np.exp(liking - liking.max(axis=1, keepdims=True))
        soft = weight / weight.sum(axis=1, keepdims=True)
        return Students(
            units=np.asarray(units),
            x=x,
            site=site,
            hidden=hidden,
            shift=self._outcome[site] + 0.5 * self.settings.hidden * hidden[:, None],
            base=(1 - EXPLORE - ANCHORED) * soft + EXPLORE / oracle.items,
        )

    def start(self, students: Students) -> Moment:
        """Return the moment before the first item."""
        return Moment(0, np.zeros(len(students.units), dtype=np.int64), self.oracle.start(students.x))

    def potentials(self, moment: Moment, students: Students, items: Ints) -> Array:
        """Return p(right answer now) for ``items`` [N, K], K for each student, [N, K]."""
        logits = np.take_along_axis(self.oracle.logits(moment.state), items, axis=1)
        return sigmoid(logits + np.take_along_axis(students.shift, items, axis=1))

    def answer(self, moment: Moment, item: Ints, right: NDArray[np.bool_]) -> Moment:
        """Return the moment after items [N] were met with answers [N]."""
        return Moment(moment.step + 1, moment.right + right, self.oracle.step(moment.state, item, right))

    def policy(self, students: Students, context: Array) -> Array:
        """Return the logging policy's probability of each item at contexts [N], [N, J]; a row sums to 1."""
        probability = students.base.copy()
        lean = self._lean(students, context, students.hidden)
        probability[:, self.on] += ANCHORED * lean
        probability[:, self.off] += ANCHORED * (1 - lean)
        return probability

    def propensity(self, students: Students, context: Array, item: Ints) -> Array:
        """Return the logging policy's probability of ``item`` [N] at contexts [N], [N].

        With a hidden confounder it is the mean over what is hidden: what the site would write down, and not the
        probability that the item was chosen with.
        """
        lean = sum(weight * self._lean(students, context, level) for level, weight in self._levels)
        anchored = np.where(item == self.on, lean, 0.0) + np.where(item == self.off, 1 - lean, 0.0)
        return students.base[np.arange(len(item)), item] + ANCHORED * anchored

    def choose(self, students: Students, context: Array, noise: Array) -> Ints:
        """Return the logging policy's items [N] for uniform draws [N], by its distribution function in item order."""
        reached = np.cumsum(self.policy(students, context), axis=1) <= noise[:, None]
        # Rounding may leave the last sum below a draw that is almost 1.
        return np.minimum(reached.sum(axis=1), self.oracle.items - 1)

    def _lean(self, students: Students, context: Array, hidden: Array | float) -> Array:
        """Return how much of the anchors' share goes to ``on``, [N]."""
        pull = self.settings.confounding * self._slope[students.site] * (context - 0.65) / 0.15
        own = self._tilt[students.site] + 0.5 * students.x[:, 0] + self.settings.hidden * hidden
        return sigmoid(pull + own)
