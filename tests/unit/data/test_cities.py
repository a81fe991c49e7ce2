"""Generated taxis and crowds are what they say: the same again from one seed, and neighbours know something ahead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.panels.areas import WEATHER, Areas
from fedloom.data.panels.build import build_panel
from fedloom.data.panels.clients import combined, with_horizons, with_passive
from fedloom.data.panels.panel import read_panel, write_panel
from fedloom.data.panels.readings import Readings
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.points.trips import Trips, make_city, trip_frames
from fedloom.errors import InputError

COLUMNS = ["TRIP_ID", "CALL_TYPE", "ORIGIN_CALL", "ORIGIN_STAND", "TAXI_ID"]
COLUMNS += ["TIMESTAMP", "DAY_TYPE", "MISSING_DATA", "POLYLINE"]
STAMPS = pd.date_range("2024-01-01", periods=30, freq="h", name="timestamp")


def test_trips_are_the_same_again_and_others_from_another_seed() -> None:
    one, again, other = (pd.concat(trip_frames(Trips(seed=seed, days=2))) for seed in (0, 0, 1))
    assert list(one.columns) == COLUMNS
    pd.testing.assert_frame_equal(one, again)
    assert not one["TIMESTAMP"].equals(other["TIMESTAMP"])


def test_as_many_trips_start_as_are_asked_for() -> None:
    city = make_city(Trips(days=56, per_hour=80))
    assert city.mean.sum(axis=1).mean() == pytest.approx(80, rel=0.1)


def gain_of_the_neighbour(settings: Trips) -> float:
    """Share of a zone's deviation, unexplained by its own past, that the zone upstream explains an hour before."""
    city = make_city(settings)
    side = round(len(city.place) ** 0.5)
    hours = np.log(city.mean).reshape(-1, 7, 24, side, side)
    deviation = (hours - hours.mean(axis=0)).reshape(-1, side, side)
    now, own, upstream = (d.ravel() for d in (deviation[1:, :, 1:], deviation[:-1, :, 1:], deviation[:-1, :, :-1]))
    left = now - own * (now @ own) / (own @ own)
    return float(np.corrcoef(left, upstream)[0, 1] ** 2)


def test_what_a_zone_has_beyond_its_habit_comes_from_upstream() -> None:
    assert gain_of_the_neighbour(Trips(days=70)) > 0.15
    assert gain_of_the_neighbour(Trips(days=70, travels=0.0)) < 0.02


def areas(**settings: object) -> PanelSettings:
    return PanelSettings("areas", "visitors / h", 60, areas=Areas(hours=900, **settings), passive={"weather": WEATHER})  # type: ignore[arg-type]


def test_generated_crowds_have_areas_and_one_passive_weather_client(tmp_path: Path) -> None:
    panel = build_panel(areas(), tmp_path)
    write_panel(panel, tmp_path / "panel")
    read = read_panel(tmp_path / "panel")
    assert read.nodes["role"].tolist() == ["active"] * 6 + ["passive"]
    assert list(read.features.columns) == [f"{name}/weather" for name in WEATHER[1:]]
    pd.testing.assert_frame_equal(build_panel(areas(), tmp_path).values, read.values, check_freq=False)
    assert not build_panel(areas(seed=1), tmp_path).values.equals(read.values)


def test_people_mind_the_rain_and_move_on_to_the_next_area(tmp_path: Path) -> None:
    dry, wet = (build_panel(areas(weather=weather), tmp_path) for weather in (0.0, 1.0))
    rain = dry.features["rainfall/weather"].rolling(6, min_periods=1).mean()
    visitors = [each.values.drop(columns="weather") for each in (wet, dry)]
    lost = (np.log1p(visitors[0]) - np.log1p(visitors[1])).mean(axis=1)
    assert np.corrcoef(lost, rain)[0, 1] < -0.5


def table() -> Readings:
    values = pd.DataFrame({"a": np.arange(30.0), "b": 1.0, "c": 2.0}, index=STAMPS)
    values.loc[STAMPS[3], "b"] = np.nan
    places = pd.DataFrame({"lat": [0.0, 2.0, 5.0], "lon": [1.0, 3.0, 5.0]}, index=pd.Index(["a", "b", "c"], name="id"))
    features = pd.DataFrame({"warm": np.arange(30.0), "damp": 1.0, "own/a": 0.0}, index=STAMPS)
    return Readings(values, places, features=features)


def test_a_sum_of_nodes_lies_amid_them_and_misses_what_one_of_them_misses() -> None:
    found = combined(table(), {"ab": ("a", "b"), "c": ("c",)}, "t")
    assert found.values["ab"].iloc[4] == 5
    assert np.flatnonzero(found.values["ab"].isna()).tolist() == [3]
    assert found.positions is not None
    assert found.positions.loc["ab"].tolist() == [1, 2]
    assert found.features is not None
    assert list(found.features.columns) == ["warm", "damp"]
    for groups, message in (({"x": ("z",)}, "found 'z'"), ({"x": ("a",), "y": ("a",)}, "found 'a' twice")):
        with pytest.raises(InputError, match=message):
            combined(table(), groups, "t")


def test_a_passive_node_takes_its_covariates_from_the_others() -> None:
    found = with_passive(table(), {"sky": ("warm", "damp")}, "t")
    assert found.values["sky"].tolist() == list(range(30))
    assert found.features is not None
    assert list(found.features.columns) == ["own/a", "damp/sky"]
    assert found.positions is not None
    assert found.positions["role"].tolist() == ["active"] * 3 + ["passive"]
    assert found.positions.loc["sky", ["lat", "lon"]].isna().all()
    with pytest.raises(InputError, match=r"passive\.sky: expected covariates of the data"):
        with_passive(table(), {"sky": ("wind",)}, "t")


def test_nodes_may_have_a_horizon_of_their_own() -> None:
    found = with_horizons(table(), {"b": 3}, "t")
    assert found.positions is not None
    assert found.positions["horizon"].tolist() == [pd.NA, 3, pd.NA]
    with pytest.raises(InputError, match="horizons: expected nodes of the data, found 'z'"):
        with_horizons(table(), {"z": 3}, "t")


def test_a_panel_has_one_origin() -> None:
    for wrong in ({}, {"reader": "csv", "areas": Areas()}, {"trips": Trips()}):
        with pytest.raises(InputError, match="panel: "):
            PanelSettings("x", "u", 60, **wrong)  # type: ignore[arg-type]
