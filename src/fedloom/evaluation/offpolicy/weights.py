"""Importance weights: how much more often the target policy would have taken the logged action.

A weight is truncated where a single row would count too much. Where m of n rows can match the target, their weights are
n / m on average if propensities are right, and none may be more than √m times that: n / √m (the truncation of Ionides
2008, which is √n for a target that can match every row). The bound grows with the log, so that its bias fades, and it
moves with the target: a policy that takes one of 80 actions has weights of 80 under a uniform log, and none of them is
an outlier. Only counts go into it, which clients send anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Clipping:
    """Bounds on what one step can weigh: the least propensity, and the largest weight if it is not to be n / √m."""

    least_propensity: float = 0.0
    largest_weight: float | None = None


CLIPPING = {"logged": Clipping(), "estimated": Clipping(least_propensity=0.01)}
"""By where propensities come from: an estimate near 0 may be far off, a logged one is what it is."""


@dataclass(frozen=True)
class Weights:
    """``weight`` of every step, 0 where the target would not have taken the action; ``clipped`` where a bound bit.

    ``bound`` is what no weight is above.
    """

    weight: Floats
    clipped: Bools
    bound: float = np.inf


def weigh(target: Floats, propensity: Floats, clipping: Clipping, rows: Ints | None = None) -> Weights:
    """Return target / propensity, both probabilities of the logged action, [R] or, step by step, [R, W].

    A deterministic target is 1 where it takes the logged action and 0 elsewhere. Propensities matter only where the
    target is not 0; InputError where one of those is not above 0 and at most 1, or unknown. ``rows`` [W] says how many
    rows could have matched at each step, where not all of them could.
    """
    used = propensity[target > 0]
    wrong = used[~((used > 0) & (used <= 1))]
    if len(wrong):
        raise InputError(f"log: propensity: expected above 0 and at most 1, found {wrong[0]:g} on {len(wrong)} steps")
    raw = np.divide(target, propensity, out=np.zeros_like(target), where=target > 0)
    floored = np.divide(
        target, np.maximum(propensity, clipping.least_propensity), out=np.zeros_like(target), where=target > 0
    )
    matches = np.maximum((target > 0).sum(axis=0), 1)
    truncation = np.asarray(len(target) if rows is None else rows) / np.sqrt(matches)
    largest = truncation if clipping.largest_weight is None else np.asarray(clipping.largest_weight)
    weight = np.minimum(floored, largest)
    floor = 1 / clipping.least_propensity if clipping.least_propensity > 0 else np.inf
    return Weights(weight, weight < raw, min(float(largest.max(initial=0.0)), floor))
