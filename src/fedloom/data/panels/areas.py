"""Generated crowds: areas whose visitors are counted every hour, and the weather, known at one station.

Of what an area has beyond its habit a part moves on to the next area within the hour, and people mind the weather of
the hours before. So neighbours and the weather both say something of an area's next hours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.panels.readings import Readings
from fedloom.data.ranges import require_ranges

Array = NDArray[np.float64]

HOURS = 24
WEATHER = ("temperature", "humidity", "pressure", "wind_speed", "rainfall", "cloud")
SITES = ("place", "level", "news", "weather", "count")
SETTLED = 500  # hours after which a slow series no longer knows where it began
MINDED = 6  # hours for which people remember the weather


@dataclass(frozen=True)
class Areas:
    """Settings of the generated crowds."""

    seed: int = 0
    areas: int = 6
    hours: int = 2000
    start: str = "2024-01-01"
    visitors: float = 400.0  # of an area in an hour, mean
    stays: float = 0.5  # share of an hour's deviation that is still there in the next
    travels: float = 0.4  # share that is in the next area then
    deviation: float = 0.2  # of the logarithm of the mean, standard deviation of an hour's news
    weather: float = 0.3  # how much of its visitors an area loses to an hour's steady rain, as a logarithm

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        ranges = {
            "areas": (1, 1000),
            "hours": (HOURS, 1_000_000),
            "visitors": (1, 1e6),
            "stays": (0, 1),
            "travels": (0, 1 - self.stays),
            "deviation": (0, 2),
            "weather": (0, 5),
        }
        require_ranges("areas", self, ranges)


def generate_areas(settings: Areas) -> Readings:
    """Return counts by area and hour, the areas' places on a ring, and the weather as covariates of all."""
    stamps = pd.date_range(settings.start, periods=settings.hours, freq="h", name="timestamp", unit="ns")
    weather = _weather(settings, stamps)
    mean = settings.visitors * _habit(settings, stamps) * np.exp(_deviation(settings))
    recent = weather[["rainfall", "temperature"]].rolling(MINDED, min_periods=1).mean()
    wet = np.minimum(recent["rainfall"].to_numpy() / 2, 1)
    mean *= np.exp(settings.weather * (0.02 * (recent["temperature"].to_numpy() - 15) - wet))[:, None]
    counts = _rng(settings, "count").poisson(mean).astype(float)
    ids = [f"area{i + 1}" for i in range(settings.areas)]
    around = 2 * np.pi * np.arange(settings.areas) / settings.areas
    distance = 0.01 * (1 + 0.1 * _rng(settings, "place").normal(size=settings.areas))
    places = {"lat": 52.1 + distance * np.sin(around), "lon": 4.28 + distance * np.cos(around)}
    positions = pd.DataFrame(places, index=pd.Index(ids, name="id"))
    return Readings(pd.DataFrame(counts, index=stamps, columns=ids), positions, features=weather.astype("float32"))


def _habit(settings: Areas, stamps: pd.DatetimeIndex) -> Array:
    """Return the habit of every area, [T, areas]: a peak a day, later in some areas, and livelier weekends in some."""
    rng = _rng(settings, "level")
    at, gain, level = (rng.uniform(low, high, settings.areas) for low, high in ((12.0, 18.0), (-0.3, 0.6), (0.5, 1.5)))
    apart = (stamps.hour.to_numpy()[:, None] - at + HOURS / 2) % HOURS - HOURS / 2
    weekend = np.asarray(stamps.day_of_week >= 5, dtype=float)[:, None]
    return level * (0.1 + 1.8 * np.exp(-np.square(apart / 3.5) / 2)) * (1 + gain * weekend)


def _deviation(settings: Areas) -> Array:
    news = _rng(settings, "news").normal(0, settings.deviation, (settings.hours, settings.areas))
    found, before = np.zeros_like(news), np.zeros(settings.areas)
    for hour, new in enumerate(news):
        found[hour] = before = settings.stays * before + settings.travels * np.roll(before, 1) + new
    return found


def _weather(settings: Areas, stamps: pd.DatetimeIndex) -> pd.DataFrame:
    """Return the six quantities ``WEATHER`` by hour: slow series of which cloud drives rain, damp and warmth."""
    rng = _rng(settings, "weather")

    def slow(halflife: float) -> Array:
        shocks = pd.Series(rng.normal(size=SETTLED + len(stamps)))
        series = shocks.ewm(halflife=halflife).mean().to_numpy(dtype=np.float64)[SETTLED:]
        return (series - series.mean()) / series.std()

    front, warmth, gust, drizzle = slow(18), slow(48), slow(6), slow(3)
    day = np.cos(2 * np.pi * (stamps.hour.to_numpy() - 15) / HOURS)
    year = np.cos(2 * np.pi * (stamps.day_of_year.to_numpy() - 200) / 365)
    cloud = np.clip(4 + 3 * front, 0, 8)
    rain = np.maximum(0, front + 0.5 * drizzle - 1) * 2
    temperature = 12 + 8 * year + 4 * day + 3 * warmth - 1.5 * front
    humidity = np.clip(70 - 12 * day + 10 * front, 10, 100)
    values = (temperature, humidity, 1013 - 7 * front, np.maximum(0, 12 + 5 * gust), rain, cloud)
    return pd.DataFrame(dict(zip(WEATHER, values, strict=True)), index=stamps)


def _rng(settings: Areas, site: str) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=settings.seed, counter=[0, 0, SITES.index(site), 0]))
