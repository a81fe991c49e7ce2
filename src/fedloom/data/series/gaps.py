"""Short gaps of a series are filled along a line, inside one part of its split: no part looks into the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fill_gaps(values: NDArray[np.float32], bounds: tuple[int, int], longest: int) -> NDArray[np.float32]:
    """``values`` [T] with gaps of at most ``longest`` points filled; longer ones, and those at an end, stay NaN.

    ``bounds`` are the first points of the validation and the test part. A gap that crosses one is two gaps at an end.
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    filled = values.copy()
    for low, high in zip((0, *bounds), (*bounds, len(values)), strict=True):
        _fill(filled[low:high], missing[low:high], longest)
    return filled


def _fill(values: NDArray[np.float32], missing: NDArray[np.bool_], longest: int) -> None:
    edges = np.flatnonzero(np.diff(np.r_[False, missing, False].astype(np.int8)))
    begin, end = edges[::2], edges[1::2]
    short = (begin > 0) & (end < len(values)) & (end - begin <= longest)
    steps = np.zeros(len(values) + 1, np.int64)
    steps[begin[short]] += 1
    steps[end[short]] -= 1
    inside = np.flatnonzero(np.cumsum(steps)[:-1] > 0)
    there = np.flatnonzero(~missing)
    if len(inside):
        values[inside] = np.interp(inside, there, values[there])
