"""Value of deviating from the logged policy for one step, averaged over logged histories (the bandit reduction).

Estimators, for rows with target q̂(H, π), weight w, outcome y and q̂(H, T) of the logged action T:
DM mean q̂(H, π); IPS mean w y; SNIPS Σ w y / Σ w; DR mean [q̂(H, π) + w (y - q̂(H, T))];
SNDR mean q̂(H, π) + Σ w (y - q̂(H, T)) / Σ w (Dudík, Langford, Li 2011; Swaminathan, Joachims 2015).
Every one is a function of sums over rows, so clients send sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sums = dict[str, Floats]
"""Name -> sum over rows, of any leading shape, such as one sum a bootstrap draw."""

Estimator = Callable[[Sums], Floats]


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, NaN where there is nothing to divide by."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)


STEP_ESTIMATORS: dict[str, Estimator] = {
    "dm": lambda s: ratio(s["q"], s["rows"]),
    "ips": lambda s: ratio(s["wy"], s["rows"]),
    "snips": lambda s: ratio(s["wy"], s["w"]),
    "dr": lambda s: ratio(s["q"] + s["wr"], s["rows"]),
    "sndr": lambda s: ratio(s["q"], s["rows"]) + ratio(s["wr"], s["w"]),
}


def step_terms(
    weight_R: Floats, outcome_R: Floats, q_target_R: Floats | None = None, q_logged_R: Floats | None = None
) -> Sums:
    """Return what each of R rows adds to the sums of ``STEP_ESTIMATORS``; without q̂, to those that need no model."""
    terms = {"rows": np.ones_like(weight_R), "w": weight_R, "wy": weight_R * outcome_R}
    if q_target_R is not None and q_logged_R is not None:
        # A model need not answer for an action whose outcome has no weight.
        residual_R = np.where(weight_R > 0, outcome_R - q_logged_R, 0.0)
        terms |= {"q": q_target_R, "wr": weight_R * residual_R}
    return terms
