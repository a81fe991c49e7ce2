"""Trips written as text ``[[lon,lat],...]``, a point every few seconds, as in the Porto taxi data.

JSON is what the text is, but a JSON parser makes one Python number at a time. Text of the usual form, which an
expression recognises, goes to numpy's reader for separated numbers, which is several times as fast; the parser gets
the rest.
"""

from __future__ import annotations

import json
import re

import numpy as np
from numpy.typing import NDArray

from fedloom.data.points.blocks import Floats, Integers

NUMBER = r"-?\d+(?:\.\d+)?"
PAIR = rf"\[{NUMBER},{NUMBER}\]"
USUAL = re.compile(rf"\[(?:{PAIR}(?:,{PAIR})*)?\]")
BAD = -1


def parse_polylines(texts: list[str]) -> tuple[Integers, Floats]:
    """Return the number of points of each text [n], ``BAD`` where it is no list of pairs of numbers, and all points.

    Points [sum of the counts, 2] are (lon, lat) in the order of the texts; a number may be NaN, as JSON of Python
    allows.
    """
    counts = np.zeros(len(texts), dtype=np.int64)
    odd: dict[int, Floats] = {}
    usual = []
    for row, text in enumerate(texts):
        if USUAL.fullmatch(text):
            counts[row] = text.count("[") - 1
            if counts[row]:
                usual.append(text)
        else:
            points = _parse(text)
            counts[row] = BAD if points is None else len(points)
            if points is not None and len(points):
                odd[row] = points
    found = np.fromstring(",".join(usual).replace("[", "").replace("]", ""), sep=",").reshape(-1, 2)
    if not odd:
        return counts, found
    ends = np.cumsum(np.maximum(counts, 0))
    points_N2 = np.empty((int(ends[-1]), 2))
    of_usual = np.ones(len(points_N2), dtype=bool)
    for row, points in odd.items():
        place = slice(ends[row] - counts[row], ends[row])
        points_N2[place] = points
        of_usual[place] = False
    points_N2[of_usual] = found
    return counts, points_N2


def stamps(first: Integers, counts: Integers, seconds: int) -> Integers:
    """Return the stamps of all points of trips that begin at ``first`` [n] and have a point every ``seconds``."""
    begins = np.cumsum(counts) - counts
    number = np.arange(int(counts.sum())) - np.repeat(begins, counts)
    return np.repeat(first, counts) + seconds * number


def _parse(text: str) -> Floats | None:
    try:
        points = np.array(json.loads(text), dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    if points.size == 0:
        return np.empty((0, 2)) if points.ndim == 1 else None
    return points if points.ndim == 2 and points.shape[1] == 2 else None


def repeated(ids: list[str], seen: set[str]) -> NDArray[np.bool_]:
    """Return which of ``ids`` [n] came before, here or in ``seen``; all of them are added to ``seen``."""
    again = np.zeros(len(ids), dtype=bool)
    for row, name in enumerate(ids):
        again[row] = name in seen
        seen.add(name)
    return again
