"""Importance weights: how much more often the target policy would have taken the logged action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Clipping:
    """Bounds on what one step can weigh: the least propensity and the largest weight."""

    least_propensity: float = 0.01
    largest_weight: float = 20.0


@dataclass(frozen=True)
class Weights:
    """``weight`` of every step, 0 where the target would not have taken the action; ``clipped`` where a bound bit."""

    weight: Floats
    clipped: Bools

    @property
    def matched(self) -> Bools:
        """Where the target could have taken the logged action."""
        return self.weight > 0


def weigh(target: Floats, propensity: Floats, clipping: Clipping | None = None) -> Weights:
    """Return target / propensity, both probabilities of the logged action, of any shape.

    A deterministic target is 1 where it takes the logged action and 0 elsewhere. Propensities matter only where the
    target is not 0; InputError where one of those is not above 0 and at most 1, or unknown.
    """
    bounds = clipping or Clipping()
    used = propensity[target > 0]
    wrong = used[~((used > 0) & (used <= 1))]
    if len(wrong):
        raise InputError(f"log: propensity: expected above 0 and at most 1, found {wrong[0]:g} on {len(wrong)} steps")
    raw = np.divide(target, propensity, out=np.zeros_like(target), where=target > 0)
    floored = np.divide(
        target, np.maximum(propensity, bounds.least_propensity), out=np.zeros_like(target), where=target > 0
    )
    weight = np.minimum(floored, bounds.largest_weight)
    return Weights(weight, weight < raw)
