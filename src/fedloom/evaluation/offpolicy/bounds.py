"""Conservative bounds on a policy's value: what holds whatever happens where the log says nothing.

For outcomes in [0, 1] and a weight w' that was truncated, E[w' y] is at most the value, since truncating and missing
overlap only take away, and by the same argument for 1 - y the value is at most 1 - E[w' (1 - y)] = E[w' y] + 1 - E[w']:
the share of weight that is missing counts as failures in the one and as successes in the other (Bottou et al. 2013,
Counterfactual reasoning and learning systems, Sec. 4.4). No model is trusted; propensities are. Around both stands
the sampling error, of bootstrap draws of owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedloom.evaluation.offpolicy.estimate import LEVEL, Support
from fedloom.evaluation.offpolicy.federated import Upload
from fedloom.evaluation.rows import Row, condition, row


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value that the log leaves open, at ``LEVEL``."""

    lower: float
    upper: float


def bounds(sent: Upload, backed: Support, gain: str) -> Bounds:
    """Return the bounds from what clients sent; ``gain`` names the term of weight times outcome.

    Where so few rows follow the policy that a bootstrap of them says nothing, or all of those ended alike, the bounds
    are those of any outcome: 0 and 1.
    """
    if backed.reason not in (None, "clipped"):
        return Bounds(0.0, 1.0)
    gain_R, weight_R, rows_R = (sent.drawn[name] for name in (gain, "w", "rows"))
    known = rows_R > 0
    lower_R = gain_R[known] / rows_R[known]
    missing_R = np.maximum(1 - weight_R[known] / rows_R[known], 0)
    tail = (1 - LEVEL) / 2
    lower, upper = np.quantile(lower_R, tail), np.quantile(lower_R + missing_R, 1 - tail)
    return Bounds(float(np.clip(lower, 0, 1)), float(np.clip(upper, 0, 1)))


def bound_rows(sent: Upload, backed: Support, gain: str, under: Mapping[str, str], horizon: str = "all") -> list[Row]:
    """Return rows ``value_lower`` and ``value_upper`` of one policy; null where there is no row to look at."""
    found, of = bounds(sent, backed, gain), condition(**under)
    missing = None if backed.rows else str(backed.reason)
    known = {"value_lower": found.lower, "value_upper": found.upper}
    return [
        row(metric, value if backed.rows else np.nan, backed.rows, of, horizon=horizon, reason=missing)
        for metric, value in known.items()
    ]
