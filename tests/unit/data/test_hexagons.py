"""Points by hexagon and bin: counts agree with a count one point at a time, wherever the points lie and whenever."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import h3
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.panels.build import build_panel
from fedloom.data.panels.readings import Readings
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.points.blocks import Points, Tally
from fedloom.data.points.hexagons import hexagon_table
from fedloom.data.points.polylines import parse_polylines
from fedloom.data.points.readers import READERS
from fedloom.data.points.settings import Hexagons
from fedloom.data.points.trips import Trips, trip_frames
from fedloom.data.raw import RawFolder
from fedloom.errors import InputError

Put = Callable[[Path, str, str, bytes | Path], None]
TOWN = (41.0, -8.8, 41.3, -8.4)
FIJI = (-18.0, 179.5, -16.0, -179.5)


def stamp(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def some_points(box: tuple[float, float, float, float], first: int, last: int, count: int = 4000) -> Points:
    rng = np.random.default_rng(count)
    south, west, north, east = box
    lon = rng.uniform(west, east if east > west else east + 360, count)
    return Points(
        vehicle=rng.integers(0, 20, count),
        time=rng.integers(first, last, count),
        lat=rng.uniform(south, north, count),
        lon=np.where(lon > 180, lon - 360, lon),
    )


def by_hand(points: Points, how: Hexagons, minutes: int, zone: str) -> dict[tuple[str, datetime], set[int]]:
    """Vehicles by cell and local bin, one point at a time; the second pass of a repeated hour is left out."""
    found = defaultdict(set)
    for vehicle, time, lat, lon in zip(*(each.tolist() for each in points), strict=True):
        local = datetime.fromtimestamp(time, UTC).astimezone(ZoneInfo(zone))
        wall = local.replace(tzinfo=None)
        if local.fold or not datetime.fromisoformat(how.start) <= wall < datetime.fromisoformat(how.end):
            continue
        place = (wall - datetime.fromisoformat(how.start)) // timedelta(minutes=minutes)
        start = datetime.fromisoformat(how.start) + place * timedelta(minutes=minutes)
        found[h3.latlng_to_cell(lat, lon, how.resolution), start].add(vehicle)
    return found


def check_counts(table: Readings, points: Points, how: Hexagons, minutes: int, zone: str) -> None:
    expected = by_hand(points, how, minutes, zone)
    assert expected
    chosen = {cell for cell, start in expected if start in table.values.index[: len(table.values) // 2]}
    assert set(table.values.columns) == chosen
    expected = {place: vehicles for place, vehicles in expected.items() if place[0] in chosen}
    assert table.values.to_numpy().sum() == sum(map(len, expected.values()))
    for (cell, start), vehicles in expected.items():
        assert table.values.loc[start, cell] == len(vehicles)


@pytest.mark.parametrize("minutes", [15, 60])
@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("Europe/Lisbon", "2014-03-29", "2014-03-31"),
        ("Europe/Lisbon", "2013-10-26", "2013-10-28"),
        ("America/Los_Angeles", "2008-11-01 06:00", "2008-11-03"),
        ("Australia/Lord_Howe", "2013-10-05", "2013-10-07"),
        ("Australia/Lord_Howe", "2014-04-05", "2014-04-07"),
        ("Asia/Kathmandu", "2014-04-05", "2014-04-06"),
        ("UTC", "2013-10-26", "2013-10-28"),
    ],
)
def test_counts_agree_with_brute_force_whatever_the_clock_does(zone: str, start: str, end: str, minutes: int) -> None:
    how = Hexagons(start, end, TOWN, resolution=6)
    points = some_points(TOWN, stamp(start, zone) - 7200, stamp(end, zone) + 7200)
    halves = [Points(*(each[part] for each in points)) for part in (slice(None, 1500), slice(1500, None))]
    tally = Tally()
    table = hexagon_table(halves, Hexagons(start, end, TOWN, 6, tolerated=1), minutes, zone, tally, "town")
    check_counts(table, points, how, minutes, zone)
    assert sum(tally.reasons.values()) + table.values.to_numpy().sum() <= len(points.time)


def test_a_skipped_hour_is_no_row_and_of_a_repeated_one_the_first_pass_counts() -> None:
    zone = "Europe/Lisbon"
    how = Hexagons("2014-03-30", "2014-03-31", TOWN, resolution=4)
    early = Points(*(np.array([value]) for value in (0, stamp("2014-03-30 03:00", zone), 41.15, -8.6)))
    rows = hexagon_table([early], how, 60, zone, Tally(), "town").values.index
    assert len(rows) == 23
    assert pd.Timestamp("2014-03-30 01:00") not in rows

    how, tally = Hexagons("2013-10-27", "2013-10-28", TOWN, resolution=4), Tally()
    first = stamp("2013-10-27 01:30", zone)
    twice = Points(np.array([0, 1]), np.array([first, first + 3600]), np.full(2, 41.15), np.full(2, -8.6))
    values = hexagon_table([twice], how, 60, zone, tally, "town").values
    assert len(values) == 24
    assert values.iloc[1].sum() == 1
    assert tally.reasons == {"points_in_a_repeated_hour": 1}


def test_points_on_borders_of_cells_fall_where_h3_says() -> None:
    cell = h3.latlng_to_cell(41.15, -8.62, 8)
    corners = np.array([corner for near in h3.grid_disk(cell, 2) for corner in h3.cell_to_boundary(near)])
    middles = np.concatenate([corners, (corners + np.roll(corners, 1, axis=0)) / 2])
    near = np.concatenate([middles, np.nextafter(middles, 90), np.nextafter(middles, -90)])
    near = near[(near[:, 0] > TOWN[0]) & (near[:, 1] < TOWN[3])]
    when = np.full(len(near), stamp("2014-01-01 10:20"))
    points = Points(np.arange(len(near)), when, near[:, 0], near[:, 1])
    how = Hexagons("2014-01-01", "2014-01-02", TOWN, resolution=8)
    check_counts(hexagon_table([points], how, 60, None, Tally(), "town"), points, how, 60, "UTC")


def test_cells_on_both_sides_of_the_antimeridian_are_neighbours() -> None:
    how = Hexagons("2014-01-01", "2014-01-02", FIJI, resolution=5)
    points = some_points(FIJI, stamp("2014-01-01"), stamp("2014-01-02"), 6000)
    tally = Tally()
    table = hexagon_table([points], how, 60, None, tally, "Fiji")
    check_counts(table, points, how, 60, "UTC")
    assert set(tally.reasons) <= {"cells_left_out"}
    assert table.positions is not None
    assert table.edges is not None
    lon = table.positions["lon"]
    assert ((lon[table.edges["src"]].to_numpy() > 0) & (lon[table.edges["dst"]].to_numpy() < 0)).any()


def test_edges_join_cells_that_share_a_border_both_ways() -> None:
    how = Hexagons("2014-01-01", "2014-01-02", TOWN, resolution=6)
    table = hexagon_table([some_points(TOWN, stamp("2014-01-01"), stamp("2014-01-02"))], how, 60, None, Tally(), "town")
    assert table.edges is not None
    pairs = set(zip(table.edges["src"], table.edges["dst"], strict=True))
    expected = {(a, b) for a in table.values.columns for b in table.values.columns if h3.are_neighbor_cells(a, b)}
    assert pairs == expected


def test_cells_are_chosen_by_the_first_half_alone() -> None:
    cells = {"early": (41.10, -8.60), "late": (41.20, -8.60)}
    when = {"early": "2014-01-01 03:00", "late": "2014-01-01 20:00"}
    rows = [(n, stamp(when[name]), *cells[name]) for name in cells for n in range(5 if name == "late" else 1)]
    points = Points(*(np.array(column) for column in zip(*rows, strict=True)))
    table = hexagon_table([points], Hexagons("2014-01-01", "2014-01-02", TOWN, 8), 60, None, Tally(), "town")
    assert list(table.values.columns) == [h3.latlng_to_cell(*cells["early"], 8)]
    with pytest.raises(InputError, match="expected cells with 1 vehicles a bin, found none"):
        hexagon_table([points], Hexagons("2014-01-01", "2014-01-02", TOWN, 8, 1.0), 60, None, Tally(), "town")


def test_at_most_so_many_cells_are_kept_and_they_are_the_busiest() -> None:
    points = some_points(TOWN, stamp("2014-01-01"), stamp("2014-01-02"))
    every, few = (
        hexagon_table([points], Hexagons("2014-01-01", "2014-01-02", TOWN, 6, most=most), 60, None, Tally(), "town")
        for most in (None, 5)
    )
    mean = every.values.iloc[:12].mean()
    assert len(few.values.columns) == 5
    assert few.values.iloc[:12].mean().min() >= mean.drop(few.values.columns).max()


PORTO = "TRIP_ID,CALL_TYPE,ORIGIN_CALL,ORIGIN_STAND,TAXI_ID,TIMESTAMP,DAY_TYPE,MISSING_DATA,POLYLINE"
NOON = stamp("2014-01-01 11:00")
SOUND = '"[[-8.60,41.15],[-8.61,41.15]]"'


def row(trip: object, polyline: str = SOUND, taxi: object = 1, time: object = NOON, missing: str = "False") -> str:
    return f"{trip},C,,,{taxi},{time},A,{missing},{polyline}"


def porto(tmp_path: Path, put: Put, *rows: str, tolerated: float = 1.0) -> tuple[pd.DataFrame, dict[str, int]]:
    put(tmp_path, "trips", "csv", "\n".join([PORTO, *rows, ""]).encode())
    how = Hexagons("2014-01-01", "2014-01-02", TOWN, resolution=7, tolerated=tolerated)
    panel = build_panel(PanelSettings("town", "taxis", 60, reader="polylines", hexagons=how), tmp_path)
    return panel.values, panel.about["repairs"]


def test_every_kind_of_flawed_trip_is_told_of_and_kept_out(tmp_path: Path, put: Put) -> None:
    values, kept_out = porto(
        tmp_path,
        put,
        row(1),
        row(1, taxi=2),
        row(2, taxi=3, missing="True"),
        row(3, '"[]"', taxi=4),
        row(4, '"[[-8.60,41.15"', taxi=5),
        row(5, '"[[-8.60,41.15],[-8.60]]"', taxi=6),
        row(6, taxi=7, time="yesterday"),
        row(7, '"[[-8.60,41.15]]"', taxi=8),
        "8,C,,,9,too few fields",
    )
    assert values.to_numpy().max() == 2  # taxi 1, and taxi 8 with its only point
    assert kept_out == {
        "repeated_trips": 1,
        "rows_of_other_width": 1,
        "rows_with_bad_json": 2,
        "rows_without_stamp": 1,
        "trips_of_one_point_kept": 1,
        "trips_that_miss_data": 1,
        "trips_without_points": 1,
    }


def test_every_kind_of_flawed_point_is_told_of_and_kept_out(tmp_path: Path, put: Put) -> None:
    values, kept_out = porto(
        tmp_path,
        put,
        row(1),
        row(2, '"[[41.15,-8.60]]"', taxi=2),
        row(3, '"[[NaN,41.15]]"', taxi=3),
        row(4, '"[[null,41.15]]"', taxi=4),
        row(5, '"[[-7.00,41.15]]"', taxi=5),
        row(6, '"[[-8.60,41.15]]"', taxi=6, time=stamp("2015-01-01")),
    )
    assert values.to_numpy().max() == 1
    del kept_out["trips_of_one_point_kept"]
    assert kept_out == {
        "points_out_of_range": 1,
        "points_out_of_the_box": 1,
        "points_with_lat_and_lon_swapped": 1,
        "points_without_coordinates": 2,
    }


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(9, '"{"'), r"JSON lists of \[lon, lat\] in all but 10.00% of the rows, found 1 of 5 rows otherwise"),
        (row(9, taxi=""), "a vehicle in all but 10.00% of the rows, found 1 of 5 rows otherwise"),
        (row(9, time="noon"), "stamps in seconds since 1970 in all but 10.00% of the rows"),
        ("9,C,,,1", "as many fields as the header in all but 10.00% of the rows, found 1 of 5"),
        (row(9, '"[[41.15,-8.60]]"'), "latitudes and longitudes in their own places"),
        (row(9, '"[[NaN,NaN]]"'), "finite coordinates in all but 10.00% of the points, found 1 of 9 points"),
        (row(9, time=0), "stamps between start and end"),
    ],
)
def test_a_run_stops_only_above_the_tolerated_share(bad: str, message: str, tmp_path: Path, put: Put) -> None:
    with pytest.raises(InputError, match=message):
        porto(tmp_path, put, *(row(trip) for trip in range(4)), bad, tolerated=0.1)
    values, kept_out = porto(tmp_path, put, *(row(trip) for trip in range(40)), bad, tolerated=0.1)
    assert values.to_numpy().max() == 1
    assert kept_out


def test_a_file_without_a_needed_column_is_refused(tmp_path: Path, put: Put) -> None:
    put(tmp_path, "trips", "csv", b"TRIP_ID,TAXI_ID\n1,2\n")
    how = Hexagons("2014-01-01", "2014-01-02", TOWN)
    with pytest.raises(InputError, match="TIMESTAMP"):
        build_panel(PanelSettings("town", "taxis", 60, reader="polylines", hexagons=how), tmp_path)


def nested(content: bytes, depth: int) -> bytes:
    for name in ("train.csv", "train.csv.zip")[:depth]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        content = buffer.getvalue()
    return content


def test_generated_trips_in_a_file_of_any_form_give_the_panel_of_the_generator(tmp_path: Path, put: Put) -> None:
    trips = Trips(days=2, per_hour=20, vehicles=12, flawed=0.1)
    how = Hexagons("2024-01-01", "2024-01-03", (41.1, -8.7, 41.2, -8.5), resolution=8)
    direct = build_panel(PanelSettings("city", "taxis", 60, trips=trips, hexagons=how), tmp_path)
    text = pd.concat(trip_frames(trips)).to_csv(index=False).encode()
    for form, content in {
        "csv": text,
        "csv.gz": gzip.compress(text),
        "csv.zip": nested(text, 1),
        "zip": nested(text, 2),
    }.items():
        put(tmp_path, "trips", form, content)
        read = build_panel(PanelSettings("city", "taxis", 60, reader="polylines", hexagons=how), tmp_path)
        pd.testing.assert_frame_equal(read.values, direct.values)
        assert read.about["repairs"] == direct.about["repairs"]
        assert {"repeated_trips", "trips_that_miss_data", "trips_without_points"} <= set(read.about["repairs"])


def test_both_ends_of_a_trip_count_and_blocks_of_a_file_do_not(tmp_path: Path, put: Put) -> None:
    ends = {"car": ["a", "a", "b", None], "from_t": [NOON] * 4, "from_lat_e5": [4115000] * 4}
    ends |= {"from_lon_e5": [-860000] * 4, "to_t": [NOON + 3600] * 4}
    ends |= {"to_lat_e5": [4115000, 4125000, 4115000, 4115000], "to_lon_e5": [-860000] * 4}
    buffer = io.BytesIO()
    pd.DataFrame(ends).to_parquet(buffer)
    put(tmp_path, "trips", "parquet", buffer.getvalue())
    options = {"vehicle": "car", "start": "from", "end": "to", "divisor": 100000}
    how = Hexagons("2014-01-01", "2014-01-02", TOWN, resolution=7, tolerated=0.25)
    panel = build_panel(PanelSettings("t", "cars", 60, reader="trips", options=options, hexagons=how), tmp_path)
    here, there = (h3.latlng_to_cell(lat, -8.6, 7) for lat in (41.15, 41.25))
    assert panel.values.loc["2014-01-01 11:00"].to_dict() == {here: 2}  # there only in the second half: not chosen
    assert panel.values.loc["2014-01-01 12:00", here] == 2
    assert there not in panel.values.columns
    assert panel.about["repairs"]["rows_without_vehicle"] == 1
    with pytest.raises(InputError, match="options of reader points: expected vehicle, divisor, found 'start'"):
        READERS.read("points", {"start": "x"}, RawFolder(tmp_path), Tally(), lambda points, share: None)


numbers = st.decimals(-180, 180, places=6).map(str)


@given(st.lists(st.lists(st.tuples(numbers, numbers), max_size=4), max_size=6), st.data())
@settings(max_examples=60)
def test_fast_and_slow_texts_are_read_alike(trips: list[list[tuple[str, str]]], data: st.DataObject) -> None:
    texts = []
    for trip in trips:
        space = data.draw(st.sampled_from(["", " "]))  # text with spaces takes the slow way
        texts.append(f"[{f',{space}'.join(f'[{lon},{lat}]' for lon, lat in trip)}]" + space)
    counts, points = parse_polylines(texts)
    assert counts.tolist() == [len(trip) for trip in trips]
    expected = [[float(lon), float(lat)] for trip in trips for lon, lat in trip]
    np.testing.assert_array_equal(points, np.array(expected).reshape(-1, 2))


@pytest.mark.parametrize(
    "bad", ["", "[", "[[1,2],]", "[[1]]", "[[1,2,3]]", "[1,2]", "[[[1,2]]]", "null", '"x"', "[[]]"]
)
def test_text_that_is_no_list_of_pairs_is_bad_alone(bad: str) -> None:
    counts, points = parse_polylines(["[[1,2]]", bad, "[[3,4]]"])
    assert counts.tolist() == [1, -1, 1]
    assert points.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("start", ["01.02.2014", "2014-01-01 00:00+01:00", "soon"])
def test_a_start_that_is_no_local_stamp_is_refused(start: str) -> None:
    with pytest.raises(InputError, match=f"hexagons: start: expected a date like .*, found '{re.escape(start)}'"):
        Hexagons(start, "2014-02-02", TOWN)


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="panel: timezone: expected a name such as Europe/Vienna, found 'Vienna'"):
        PanelSettings("town", "vehicles", 60, reader="csv", timezone="Vienna")
