"""From points to a panel's table: distinct active vehicles by cell of the H3 grid and bin of local time.

A vehicle counts once in a cell and bin, however many of its points lie there. What is counted are packed integers of
cell, bin and vehicle, made unique a block at a time and merged, so that memory follows the distinct triples and not the
points. Cells are what ``h3`` itself says of every point; a raster in between would be wrong at borders.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import h3.api.basic_int as h3
import h3.api.basic_str as h3_text
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.panels.panel import edge_table
from fedloom.data.panels.readings import Readings
from fedloom.data.points.blocks import Floats, Integers, Points, Tally
from fedloom.data.points.settings import Hexagons
from fedloom.errors import InputError

BITS = {"bins": 21, "vehicles": 22, "cells": 20}
MERGED_AT = 20_000_000
MINUTE = 60
MARGIN = pd.Timedelta(days=2)  # no zone is further from UTC


def hexagon_table(
    blocks: Iterable[Points], settings: Hexagons, interval_minutes: int, zone: str | None, tally: Tally, where: str
) -> Readings:
    """Count the vehicles of ``blocks``; ``tally`` gets what was kept out.

    Values have one row a bin of local time that the clock of ``zone`` (UTC, if none) shows, and one column a cell, by
    its id; positions are the cells' centres; edges join neighbouring cells in both directions, with weight 1.

    Raises InputError, naming ``where``, when unusable data exceed what is tolerated or no cell is busy enough.
    """
    clock = Clock(settings, interval_minutes, zone)
    counted = Count(settings, clock, tally)
    for block in blocks:
        counted.add(block)
    tally.check(settings.tolerated, where)
    cells, counts_TC = counted.active()
    kept = _busy(counts_TC, settings)
    tally.add("cells_left_out", len(cells) - len(kept))
    if not len(kept):
        raise InputError(f"{where}: hexagons: expected cells with {settings.min_active:g} vehicles a bin, found none")
    names = [format(cell, "x") for cell in cells[kept].tolist()]
    places = [h3.cell_to_latlng(cell) for cell in cells[kept].tolist()]
    return Readings(
        values=pd.DataFrame(counts_TC[:, kept], index=clock.axis, columns=names),
        positions=pd.DataFrame(places, index=pd.Index(names, name="id"), columns=["lat", "lon"]),
        edges=neighbours(cells[kept]),
        kept_out=dict(sorted(tally.reasons.items())),
    )


def neighbours(cells: NDArray[np.uint64]) -> pd.DataFrame:
    """Return the edges among ``cells`` that share a border, in both directions, with weight 1."""
    here = set(cells.tolist())
    pairs = [(a, b) for a in sorted(here) for b in sorted(h3.grid_disk(a, 1)) if b != a and b in here]
    src, dst = ([format(pair[end], "x") for pair in pairs] for end in (0, 1))
    return edge_table(src, dst, np.ones(len(pairs)))


def borders(names: list[str]) -> list[Floats] | None:
    """Return the closed outline of every cell as (lon, lat) [n, 2]; None where a name is not that of a cell."""
    if not all(h3_text.is_valid_cell(name) for name in names):
        return None
    return [np.array([*corners, corners[0]])[:, ::-1] for corners in map(h3_text.cell_to_boundary, names)]


class Clock:
    """Bins of local time. An hour that the clock shows twice is counted the first time; one that it skips is no bin."""

    def __init__(self, settings: Hexagons, interval_minutes: int, zone: str | None) -> None:
        if (24 * 60) % interval_minutes:
            raise InputError(f"panel: interval_minutes: expected a divisor of a day, found {interval_minutes}")
        start, end = pd.Timestamp(settings.start), pd.Timestamp(settings.end)
        step = pd.Timedelta(minutes=interval_minutes)
        minutes = pd.date_range(start - MARGIN, end + MARGIN, freq="min", tz="UTC")
        local = minutes.tz_convert(zone or "UTC").tz_localize(None).as_unit("s").asi8
        # A local minute is shown for the second time where the clock has been past it before.
        shown_before = np.maximum.accumulate(np.concatenate([local[:1] - 1, local[:-1]])) >= local
        origin = int(start.timestamp())
        inside = (local >= origin) & (local < int(end.timestamp()))
        place = (local - origin) // int(step.total_seconds())
        shown = np.unique(place[inside & ~shown_before])
        self.axis = pd.DatetimeIndex(start + shown * step, name="timestamp").as_unit("ns")
        row = np.full(int(place[inside].max(initial=-1)) + 1, -1)
        row[shown] = np.arange(len(shown))
        self._first = minutes.as_unit("s").asi8[0]
        self._row = np.where(inside, row[np.where(inside, place, 0)], -1)
        self._repeated = inside & shown_before
        if len(self.axis) >= 1 << BITS["bins"]:
            raise InputError(f"hexagons: expected fewer than {1 << BITS['bins']:,} bins, found {len(self.axis):,}")

    def rows(self, time: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the bin of stamps [N] (seconds, UTC), -1 outside all, and whether an hour is shown again."""
        minute = (time - self._first) // MINUTE
        known = (minute >= 0) & (minute < len(self._row))
        minute = np.where(known, minute, 0)
        return np.where(known, self._row[minute], -1), known & self._repeated[minute]


class Count:
    """Distinct vehicles by cell and bin, from blocks of points."""

    def __init__(self, settings: Hexagons, clock: Clock, tally: Tally) -> None:
        self.settings, self.clock, self.tally = settings, clock, tally
        self._cell: dict[int, int] = {}
        self._keys: list[Integers] = []
        self._unmerged = 0

    def add(self, points: Points) -> None:
        """Count a block; every point that does not count is told of, by its first reason."""
        self.tally.points += len(points.time)
        bins, again = self.clock.rows(points.time)
        inside = within(points.lat, points.lon, self.settings.box)
        swapped = ~inside & within(points.lon, points.lat, self.settings.box)
        reasons = {
            "points_without_coordinates": ~(np.isfinite(points.lat) & np.isfinite(points.lon)),
            "points_with_lat_and_lon_swapped": swapped,
            "points_out_of_the_box": ~inside,
            "points_in_a_repeated_hour": again,
            "points_out_of_range": bins < 0,
        }
        kept = self.tally.sift(reasons)
        cell = self._cells(points.lat[kept], points.lon[kept])
        vehicle = points.vehicle[kept]
        if len(vehicle) and vehicle.max() >= 1 << BITS["vehicles"]:
            raise InputError(f"hexagons: expected fewer than {1 << BITS['vehicles']:,} vehicles, found more")
        key = ((cell << BITS["bins"] | bins[kept]) << BITS["vehicles"]) | vehicle
        self._keys.append(distinct(key))
        self._unmerged += len(self._keys[-1])
        if self._unmerged > MERGED_AT:
            self._merge()

    def active(self) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Return the cells [C], in the order of their ids, and the numbers of vehicles [T, C]."""
        self._merge()
        place, counts = np.unique(self._keys[0] >> BITS["vehicles"], return_counts=True)
        counts_TC = np.zeros((len(self.clock.axis), len(self._cell)), dtype=np.float32)
        counts_TC[place & ((1 << BITS["bins"]) - 1), place >> BITS["bins"]] = counts
        cells = np.array(list(self._cell), dtype=np.uint64)
        order = np.argsort(cells)
        return cells[order], counts_TC[:, order]

    def _merge(self) -> None:
        self._keys = [distinct(np.concatenate([np.empty(0, dtype=np.int64), *self._keys]))]
        self._unmerged = 0

    def _cells(self, lat: Floats, lon: Floats) -> Integers:
        """Return the number of each point's cell [N]; a cell seen for the first time gets the next number."""
        found = map(h3.latlng_to_cell, lat.tolist(), lon.tolist(), repeat(self.settings.resolution))
        ids, inverse = np.unique(np.fromiter(found, dtype=np.uint64, count=len(lat)), return_inverse=True)
        number = [self._cell.setdefault(int(cell), len(self._cell)) for cell in ids]
        if len(self._cell) > 1 << BITS["cells"]:
            raise InputError(f"hexagons: expected at most {1 << BITS['cells']:,} cells, found more")
        return np.array(number, dtype=np.int64)[inverse] if len(ids) else np.empty(0, dtype=np.int64)


def distinct(keys: Integers) -> Integers:
    """Return the different ones of ``keys``, sorted. numpy hashes them, and packed keys collide: sorting is faster."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) != 0]


def within(lat: Floats, lon: Floats, box: tuple[float, float, float, float]) -> NDArray[np.bool_]:
    """Return which places [N] lie in the box (south, west, north, east); west > east spans the antimeridian."""
    south, west, north, east = box
    across = (
        (lon >= west) & (lon <= east)
        if west < east
        else ((lon >= west) & (lon <= 180)) | ((lon >= -180) & (lon <= east))
    )
    return (lat >= south) & (lat <= north) & across


def _busy(counts_TC: NDArray[np.float32], settings: Hexagons) -> Integers:
    mean = counts_TC[: max(1, len(counts_TC) // 2)].mean(axis=0, dtype=np.float64)
    busy = np.flatnonzero((mean >= settings.min_active) & (mean > 0))
    return np.sort(busy[np.argsort(-mean[busy], kind="stable")][: settings.most])
