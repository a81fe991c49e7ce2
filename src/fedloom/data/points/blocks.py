"""Where vehicles were and when: blocks of points on their way from raw files to hexagons, and what was kept out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[int, float], None]
"""Called with the points read so far and the share of the raw file that is read."""

BAD_ROWS = {
    "rows_of_other_width": "rows with as many fields as the header",
    "rows_with_bad_json": "polylines as JSON lists of [lon, lat]",
    "rows_without_stamp": "stamps in seconds since 1970",
    "rows_without_vehicle": "a vehicle",
}
"""Reasons for which a row is unusable, and what was expected instead."""

BAD_POINTS = {
    "points_without_coordinates": "finite coordinates",
    "points_with_lat_and_lon_swapped": "latitudes and longitudes in their own places",
    "points_out_of_range": "stamps between start and end",
}
"""Reasons for which a point is unusable. One outside the box is none of them: it is sound, and elsewhere."""


class Points(NamedTuple):
    """A block of N points: ``vehicle`` (a number for each), ``time`` (seconds since 1970, UTC; -1 where there is none),
    ``lat``, ``lon`` (degrees)."""

    vehicle: Integers
    time: Integers
    lat: Floats
    lon: Floats


@dataclass
class Tally:
    """Rows and points read, and how many of them were kept out or mended, by reason."""

    rows: int = 0
    points: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str, count: int) -> None:
        """Count ``count`` more for ``reason``."""
        if count:
            self.reasons[reason] += int(count)

    def sift(self, reasons: dict[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return which records [N] no mask [N] of ``reasons`` keeps out; each of the others counts under its first."""
        kept = np.ones(len(next(iter(reasons.values()))), dtype=bool)
        for reason, mask in reasons.items():
            self.add(reason, (mask & kept).sum())
            kept &= ~mask
        return kept

    def check(self, tolerated: float, where: str) -> None:
        """Raise InputError where a reason makes more than the share ``tolerated`` of rows or points unusable."""
        for kinds, total, what in ((BAD_ROWS, self.rows, "rows"), (BAD_POINTS, self.points, "points")):
            for reason, expected in kinds.items():
                found = self.reasons[reason]
                if found > tolerated * total:
                    raise InputError(
                        f"{where}: expected {expected} in all but {tolerated:.2%} of the {what}, "
                        f"found {found:,} of {total:,} {what} otherwise"
                    )


class Vehicles:
    """Numbers vehicles as they come, across blocks."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}

    def numbers(self, names: Any) -> Integers:
        """Return the number of each vehicle [N]; one seen for the first time gets the next number."""
        codes, seen = pd.factorize(np.asarray(names, dtype=object))
        known = np.array([self._number.setdefault(name, len(self._number)) for name in seen], dtype=np.int64)
        return known[codes] if len(codes) else np.empty(0, dtype=np.int64)
