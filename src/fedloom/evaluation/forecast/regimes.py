"""What generated data allow: forecasts and codebooks set against the truth that made the readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

SIGNAL = "forecast=signal,mask=masked"
"""Condition of the best possible error: the noiseless signal itself as the forecast."""

LEVEL = "assigned=level"
"""Condition of what the level of a window's readings says, in place of its prototype."""

Ints = NDArray[np.int64]


def levels(readings_CW: NDArray[np.float32], present_CW: NDArray[np.bool_], count: int) -> Ints:
    """Levels [C, W] of readings that ``present_CW`` marks: ``count`` as large ones for each node, -1 elsewhere."""
    found = np.full(readings_CW.shape, -1, dtype=np.int64)
    for node, present in enumerate(present_CW):
        ranks = readings_CW[node, present].argsort(kind="stable").argsort(kind="stable")
        found[node, present] = ranks * count // max(1, len(ranks))
    return found


def information_rows(assignment_CW: Ints, regime_CW: Ints, nodes: list[str], under: str = "") -> pd.DataFrame:
    """Return normalised mutual information between prototypes and true regimes, as metric rows ``nmi``.

    ``assignment_CW`` holds the prototype that a test window is assigned to, ``regime_CW`` the true regime at the
    window's last input step; -1 in either marks a window that a node does not have. 0 means that prototypes say
    nothing of the regime, 1 that each determines the other (arithmetic normalisation). ``pooled`` treats all windows
    of all nodes as one sample, ``mean`` averages over nodes that saw more than one regime: with one regime there is
    nothing to tell apart, and the node's value is null.
    """
    present_CW = (assignment_CW >= 0) & (regime_CW >= 0)
    rows = [
        _information(node, assignment[present], regime[present])
        for node, assignment, regime, present in zip(nodes, assignment_CW, regime_CW, present_CW, strict=True)
    ]
    frame = pd.DataFrame(rows)
    values = frame.loc[frame["reason"].isna(), "value"].to_numpy(dtype=np.float64)
    rows.append(_information("pooled", assignment_CW[present_CW], regime_CW[present_CW]))
    reason = None if len(values) else "no node saw two regimes"
    mean = float(values.mean()) if len(values) else np.nan
    rows.append({"unit": "mean", "value": mean, "n": len(values), "reason": reason})
    return pd.DataFrame(rows).assign(metric="nmi", horizon="all", condition=under)


def _information(unit: str, assignment: Ints, regime: Ints) -> dict[str, object]:
    if len(np.unique(regime)) < 2:
        return {"unit": unit, "value": np.nan, "n": len(regime), "reason": "fewer than two regimes in the test part"}
    value = float(normalized_mutual_info_score(regime, assignment))
    return {"unit": unit, "value": value, "n": len(regime), "reason": None}
