"""How anomaly scores become detections, and what these are worth.

The headline is F1 of single points. Point adjustment, which counts a whole anomalous stretch as found once one of its
points is, lets random scores look good, and is shown only beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUANTILE = 0.99
"""Score above which a point of an unlabelled, or anomaly-free, validation part would be an anomaly."""


def f1(found_T: Bools, truth_T: Bools) -> float:
    """Return the harmonic mean of precision and recall; 0 where nothing is found, NaN where there is nothing."""
    if not truth_T.any():
        return float("nan")
    hits = int((found_T & truth_T).sum())
    return 2 * hits / int(found_T.sum() + truth_T.sum())


def adjusted(found_T: Bools, truth_T: Bools) -> Bools:
    """Return the detections after point adjustment: every true stretch with a detected point is detected whole."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth_T, [False]]).astype(np.int8)))
    result = found_T.copy()
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        if found_T[first:behind].any():
            result[first:behind] = True
    return result


def threshold(score_T: Floats, truth_T: Bools) -> float:
    """Return the score above which points count as anomalies, from validation alone.

    It is the one with the best F1 (unadjusted), or the 99 % quantile where validation has no anomaly.
    """
    if not truth_T.any():
        return float(np.quantile(score_T, QUANTILE))
    order = np.argsort(-score_T, kind="stable")
    hits = np.cumsum(truth_T[order])
    found = np.arange(1, len(order) + 1)
    scores = 2 * hits / (found + truth_T.sum())
    # Equal scores are all above a threshold or none is: only the last of them can be one.
    last = np.append(np.diff(score_T[order]) != 0, True)
    best = int(np.argmax(np.where(last, scores, -1)))
    following = score_T[order][best + 1] if best + 1 < len(order) else -np.inf
    return float((score_T[order][best] + following) / 2) if np.isfinite(following) else float(score_T.min() - 1)
