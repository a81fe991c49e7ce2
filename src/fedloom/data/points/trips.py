"""A generated city of taxis: trips of any number, in the columns and units of the Porto taxi data.

Trips start in square zones around a centre. How many start in a zone and hour is a Poisson number whose mean is the
product of the zone's attraction (hot spots), a daily and weekly rhythm that differs between day and night spots, and
the exponential of a deviation that travels: of what a zone has beyond its habit, a share stays for the next hour and a
share is in the next zone downstream then. So a zone's neighbours know something of its next hours that neither the
calendar nor its own past tells. A few trips have the flaws of real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.ranges import require_ranges

Array = NDArray[np.float64]

SITES = ("city", "field", "day", "flaw")
ZONE_KM = 0.8  # about a cell of H3 at resolution 8
KM_PER_DEGREE = 111.2
SECONDS = 15
HOURS = 24
FLAWS = ("repeated", "misses data", "empty", "one point", "far away")
FAR_KM = 30.0


@dataclass(frozen=True)
class Trips:
    """Settings of the generated trips; lengths in km, speeds in km/h."""

    seed: int = 0
    days: int = 42
    start: str = "2024-01-01"  # a date in UTC
    per_hour: float = 60.0  # trips that start in the city in an hour of the week's mean
    vehicles: int = 300
    centre: tuple[float, float] = (41.15, -8.62)  # degrees
    width: float = 5.0  # side of the square in which trips start and end
    hotspots: int = 6
    length: float = 1.2  # by which distance destinations get e times rarer
    speed: float = 24.0
    stays: float = 0.45  # share of an hour's deviation that is still there in the next
    travels: float = 0.5  # share that is one zone further downstream then
    deviation: float = 0.35  # of the logarithm of the mean, standard deviation of an hour's news
    flawed: float = 0.005  # share of trips with a flaw

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        ranges = {
            "days": (1, 10_000),
            "per_hour": (1e-3, 1e7),
            "vehicles": (1, 4_000_000),
            "width": (ZONE_KM, 100),
            "hotspots": (1, 1000),
            "length": (1e-2, 100),
            "speed": (1, 200),
            "stays": (0, 1),
            "travels": (0, 1 - self.stays),
            "deviation": (0, 2),
            "flawed": (0, 0.5),
        }
        require_ranges("trips", self, ranges)


@dataclass(frozen=True)
class City:
    """Z zones: ``place`` [Z, 2] (km east and north of the centre), ``mean`` [hours, Z] trips, ``to`` [Z, Z] shares."""

    place: Array
    mean: Array
    to: Array


def trip_frames(settings: Trips) -> Iterator[pd.DataFrame]:
    """Yield one table a day in Porto's columns, all of them text; the same settings give the same trips."""
    city = make_city(settings)
    served = 0
    for day in range(settings.days):
        frame = _day(settings, city, day, served)
        served += len(frame)
        yield _flawed(settings, frame, day)


def make_city(settings: Trips) -> City:
    """Return the city that ``settings`` describe."""
    rng = _rng(settings, "city")
    side = max(1, round(settings.width / ZONE_KM))
    line = (np.arange(side) - (side - 1) / 2) * ZONE_KM
    place = np.stack([axis.ravel() for axis in np.meshgrid(line, line)], axis=1)
    spots = rng.normal(0, settings.width / 4, (settings.hotspots, 2))
    distance = np.linalg.norm(place[:, None] - spots[None], axis=-1)
    pull = rng.uniform(0.5, 1.5, settings.hotspots) * np.exp(-distance / (settings.width / 6))
    by_night = rng.permutation(settings.hotspots) < settings.hotspots / 3
    attraction = 0.15 * pull.sum() / pull.size + pull.sum(axis=1)
    nightly = pull[:, by_night].sum(axis=1) / pull.sum(axis=1)
    rhythm = _rhythm(settings, nightly)
    level = attraction * rhythm
    level *= settings.per_hour / level.sum(axis=1).mean()
    deviation = _deviation(settings, side)
    # exp of a normal deviation has mean exp(variance / 2): without it, livelier cities would have more trips.
    mean = level * np.exp(deviation - deviation.var() / 2)
    apart = np.linalg.norm(place[:, None] - place[None], axis=-1)
    to = attraction * np.exp(-apart / settings.length)
    return City(place, mean, to / to.sum(axis=1, keepdims=True))


def _rhythm(settings: Trips, nightly: Array) -> Array:
    """Return the habit of every zone, [hours, Z], mean about 1: two peaks by day, one by night, fewer at weekends."""
    hours = pd.date_range(settings.start, periods=settings.days * HOURS, freq="h")
    hour, weekend = hours.hour.to_numpy()[:, None], (hours.day_of_week >= 5).astype(float)[:, None]

    def peak(at: float, width: float) -> Array:
        apart = (hour - at + HOURS / 2) % HOURS - HOURS / 2
        return np.exp(-np.square(apart / width) / 2)

    by_day = (0.15 + 1.6 * peak(8.5, 1.8) + 1.5 * peak(17.5, 2.5) + 0.6 * peak(13, 2)) * (1 - 0.45 * weekend)
    by_night = (0.2 + 2.0 * peak(23, 2.5)) * (1 + 0.8 * weekend)
    return (1 - nightly) * by_day + nightly * by_night


def _deviation(settings: Trips, side: int) -> Array:
    """Return the travelling deviation, [hours, Z]; downstream is east, and what leaves the city is gone."""
    rng = _rng(settings, "field")
    news = rng.normal(0, settings.deviation, (settings.days * HOURS, side, side))
    deviation = np.zeros_like(news)
    before = np.zeros((side, side))
    for hour, new in enumerate(news):
        arrived = np.pad(before, ((0, 0), (1, 0)))[:, :-1]
        deviation[hour] = before = settings.stays * before + settings.travels * arrived + new
    return deviation.reshape(len(news), -1)


def _day(settings: Trips, city: City, day: int, served: int) -> pd.DataFrame:
    rng = _rng(settings, "day", day)
    mean = city.mean[day * HOURS : (day + 1) * HOURS]
    hour, zone = (axis.ravel() for axis in np.indices(mean.shape))
    number = rng.poisson(mean).ravel()
    hour, zone = np.repeat(hour, number), np.repeat(zone, number)
    second = (day * HOURS + hour) * 3600 + rng.integers(0, 3600, len(hour))
    goal = (rng.random(len(zone))[:, None] > city.to.cumsum(axis=1)[zone]).sum(axis=1).clip(max=len(city.to) - 1)
    begin, end = (city.place[at] + rng.uniform(-0.5, 0.5, (len(at), 2)) * ZONE_KM for at in (zone, goal))
    speed = settings.speed * rng.lognormal(0, 0.25, len(zone))
    counts = (np.linalg.norm(end - begin, axis=1) / speed * 3600 / SECONDS).astype(int) + 2
    order = np.argsort(second, kind="stable")
    texts = _texts(settings, begin[order], end[order], counts[order], rng)
    stamp = second[order] + int(pd.Timestamp(settings.start).timestamp())
    # One after the other: a vehicle is back from a trip before it is its turn again, where there are enough of them.
    taxi = 20_000_000 + (served + np.arange(len(stamp))) % settings.vehicles
    return pd.DataFrame(
        {
            "TRIP_ID": [f"{time}6{name}" for time, name in zip(stamp, taxi, strict=True)],
            "CALL_TYPE": "C",
            "ORIGIN_CALL": "",
            "ORIGIN_STAND": "",
            "TAXI_ID": taxi.astype(str),
            "TIMESTAMP": stamp.astype(str),
            "DAY_TYPE": "A",
            "MISSING_DATA": "False",
            "POLYLINE": texts,
        },
        dtype="str",
    )


def _texts(settings: Trips, begin: Array, end: Array, counts: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """Return straight trips as text; receivers err by some metres."""
    ends = np.cumsum(counts)
    number = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    share = (number / np.repeat(counts - 1, counts))[:, None]
    km = np.repeat(begin, counts, axis=0) * (1 - share) + np.repeat(end, counts, axis=0) * share
    km += rng.normal(0, 0.005, km.shape)
    lat = settings.centre[0] + km[:, 1] / KM_PER_DEGREE
    lon = settings.centre[1] + km[:, 0] / KM_PER_DEGREE / np.cos(np.radians(settings.centre[0]))
    points = [f"[{x:.6f},{y:.6f}]" for x, y in zip(lon.tolist(), lat.tolist(), strict=True)]
    return [f"[{','.join(points[last - n : last])}]" for last, n in zip(ends.tolist(), counts.tolist(), strict=True)]


def _flawed(settings: Trips, frame: pd.DataFrame, day: int) -> pd.DataFrame:
    rng = _rng(settings, "flaw", day)
    hit = np.flatnonzero(rng.random(len(frame)) < settings.flawed)
    flaw = rng.integers(0, len(FLAWS), len(hit))
    polylines, misses = frame["POLYLINE"].to_numpy(copy=True), frame["MISSING_DATA"].to_numpy(copy=True)
    for row, kind in zip(hit, flaw, strict=True):
        name, first = FLAWS[kind], polylines[row].partition("]")[0]
        if name == "misses data":
            misses[row] = "True"
        elif name == "empty":
            polylines[row] = "[]"
        elif name == "one point":
            polylines[row] = f"{first}]]"
        elif name == "far away":
            lon = settings.centre[1] + FAR_KM / KM_PER_DEGREE
            polylines[row] = f"[[{lon:.6f},{settings.centre[0]:.6f}],{polylines[row][1:]}"
    frame = frame.assign(POLYLINE=polylines, MISSING_DATA=misses)
    again = hit[flaw == FLAWS.index("repeated")]
    return pd.concat([frame, frame.iloc[again]], ignore_index=True)


def _rng(settings: Trips, site: str, day: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=settings.seed, counter=[0, 0, SITES.index(site), day]))
