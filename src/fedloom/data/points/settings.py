"""How points become hexagons, as a dataset's file says it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fedloom.data.stamps import is_local
from fedloom.errors import InputError


@dataclass(frozen=True)
class Hexagons:
    """Which points are counted, and in which cells of the H3 grid.

    Bins are as long as the panel's interval and begin at ``start``, which like ``end`` is local time in the panel's
    time zone. Cells are chosen by the first half of the axis alone, so that nothing held out later has a say in it.
    """

    start: str
    end: str  # the first stamp after the last bin
    box: tuple[float, float, float, float]  # south, west, north, east in degrees; west > east spans the antimeridian
    resolution: int = 8  # of H3: 7 has cells of 5.2 km2, 8 of 0.74 km2
    min_active: float = 0.0  # cells with a smaller mean of vehicles a bin are left out
    most: int | None = None  # of the cells left at most so many, the busiest
    tolerated: float = 0.01  # the run stops above this share of unusable rows, or of unusable points

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        south, west, north, east = self.box
        if not (-90 <= south < north <= 90 and -180 <= west <= 180 and -180 <= east <= 180 and west != east):
            raise InputError(f"hexagons: box: expected south, west, north, east in degrees, found {self.box}")
        if not 0 <= self.resolution <= 15:
            raise InputError(f"hexagons: resolution: expected 0 to 15, found {self.resolution}")
        if not 0 <= self.tolerated <= 1:
            raise InputError(f"hexagons: tolerated: expected a share, found {self.tolerated}")
        if self.most is not None and self.most < 1:
            raise InputError(f"hexagons: most: expected at least 1 cell, found {self.most}")
        for name in ("start", "end"):
            if not is_local(getattr(self, name)):
                expected = "a date like 2024-03-31 or a stamp like 2024-03-31 14:00"
                raise InputError(f"hexagons: {name}: expected {expected}, found {getattr(self, name)!r}")
        if not pd.Timestamp(self.start) < pd.Timestamp(self.end):
            raise InputError(f"hexagons: end: expected a stamp after {self.start}, found {self.end}")
