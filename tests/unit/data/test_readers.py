"""Each published layout, rebuilt small, is read into the table it holds; all forms of one file hold the same table."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from fedloom.data.panels.build import build_panel
from fedloom.data.panels.readers import READERS
from fedloom.data.panels.settings import Graph, PanelSettings, Select
from fedloom.data.raw import RawFolder
from fedloom.data.tables import read_lines
from fedloom.errors import InputError

Put = Callable[[Path, str, str, bytes | Path], None]
RNG = np.random.default_rng(0)
STAMPS = pd.date_range("2017-03-12 01:00", periods=30, freq="5min")
SPEEDS = pd.DataFrame(RNG.uniform(0, 70, (30, 3)).round(3), index=STAMPS, columns=["400001", "400017", "400030"])


def as_csv(table: pd.DataFrame, **options: object) -> bytes:
    return table.to_csv(**options).encode()


def as_parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.reset_index(names="timestamp").to_parquet(buffer)
    return buffer.getvalue()


def as_h5(table: pd.DataFrame, key: str) -> bytes:
    """The layout of ``table.to_hdf(key)`` with h5py, which needs no further package."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = file.create_group(key)
        group["axis0"] = np.asarray(table.columns.astype(int))
        group["axis1"] = table.index.as_unit("ns").asi8
        group["block0_values"] = table.to_numpy()
    return buffer.getvalue()


def as_npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


@pytest.fixture
def bay(tmp_path: Path, put: Put) -> Path:
    """A folder with the places and distances of PEMS-BAY's layout."""
    put(tmp_path, "sensors", "csv", b"400001,37.36,-121.90\n400017,37.25,-121.94\n400030,37.35,-121.91\n")
    put(tmp_path, "distances", "csv", b"400001,400001,0\n400001,400017,900.5\n400017,400030,4000\n400017,7,1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", as_csv(SPEEDS)),
        ("csv.gz", gzip.compress(as_csv(SPEEDS))),
        ("csv.xz", lzma.compress(as_csv(SPEEDS))),
        ("parquet", as_parquet(SPEEDS)),
        ("h5", as_h5(SPEEDS, "speed")),
    ],
)
def test_every_form_of_a_speed_file_holds_the_same_table(form: str, content: bytes, bay: Path, put: Put) -> None:
    put(bay, "values", form, content)
    table = READERS.read("speed", {"header": False}, RawFolder(bay))
    pd.testing.assert_frame_equal(table.values, SPEEDS, check_names=False, check_freq=False, check_index_type=False)
    assert table.positions is not None
    assert table.positions.loc["400017"].tolist() == [37.25, -121.94]


def test_pandas_own_h5_reads_the_same(bay: Path, put: Put, tmp_path: Path) -> None:
    pytest.importorskip("tables")
    SPEEDS.to_hdf(tmp_path / "speeds.h5", key="df")
    put(bay, "values", "h5", tmp_path / "speeds.h5")
    table = READERS.read("speed", {"header": False}, RawFolder(bay))
    pd.testing.assert_frame_equal(table.values, SPEEDS, check_names=False, check_freq=False, check_index_type=False)


def test_a_part_keeps_the_weights_of_the_whole(bay: Path, put: Put) -> None:
    put(bay, "values", "csv", as_csv(SPEEDS))
    graph = Graph("table")
    whole = PanelSettings("bay", "mph", 5, reader="speed", options={"header": False}, graph=graph)
    chosen = Select(nodes=("400001", "400017"))
    part = PanelSettings(
        "bay", "mph", 5, reader="speed", options={"header": False}, graph=graph, part="2 of 3", select=chosen
    )
    edges = build_panel(part, bay).edges
    every = build_panel(whole, bay).edges
    inside = every["src"].isin(chosen.nodes or ()) & every["dst"].isin(chosen.nodes or ())
    pd.testing.assert_frame_equal(edges, every[inside].reset_index(drop=True))
    sd = np.std([0, 900.5, 4000])
    assert edges.set_index(["src", "dst"])["weight"]["400001", "400017"] == pytest.approx(np.exp(-((900.5 / sd) ** 2)))


@pytest.mark.parametrize(("form", "pack"), [("txt", bytes), ("txt.gz", gzip.compress), ("txt.xz", lzma.compress)])
def test_only_line_ends_end_a_line(form: str, pack: Callable[[bytes], bytes], tmp_path: Path, put: Put) -> None:
    lines = ["a \x85 b", "c\x0bd \xe9", "", "e"]
    put(tmp_path, "notes", form, pack("\r\n".join(lines).encode("latin-1")))
    assert read_lines(RawFolder(tmp_path).open("notes"), "latin-1") == lines


def test_flow_takes_the_first_channel_and_makes_stamps(tmp_path: Path, put: Put) -> None:
    data = RNG.uniform(0, 300, (40, 2, 3))
    put(tmp_path, "values", "npz", as_npz(data=data))
    put(tmp_path, "distances", "csv", b"from,to,cost\n0,1,300.5\n0,1,300.5\n")
    settings = PanelSettings(
        "p", "veh", 5, missing=0, reader="flow", options={"start": "2018-01-01"}, graph=Graph("table", "binary")
    )
    panel = build_panel(settings, tmp_path)
    np.testing.assert_array_equal(panel.values.to_numpy(), data[:, :, 0].astype(np.float32))
    assert panel.values.index[-1] == pd.Timestamp("2018-01-01 03:15")
    assert panel.edges.to_dict("records") == [{"src": "0", "dst": "1", "weight": 1.0}]


def test_a_tail_is_the_same_from_the_part_and_from_the_whole(tmp_path: Path, put: Put) -> None:
    data = RNG.integers(1, 300, (40, 2, 3)).astype(float)
    stamps = pd.date_range("2016-07-01", periods=40, freq="5min")
    tail = pd.DataFrame(data[-10:, :, 0], index=stamps[-10:], columns=["0", "1"])
    settings = PanelSettings(
        "p", "veh", 5, reader="flow", options={"start": "2016-07-01"}, part="tail", select=Select(last_steps=10)
    )
    panels = []
    for form, content in (("npz", as_npz(data=data)), ("parquet", as_parquet(tail))):
        put(tmp_path / form, "distances", "csv", b"from,to,cost\n")
        put(tmp_path / form, "values", form, content)
        panels.append(build_panel(settings, tmp_path / form).values)
    pd.testing.assert_frame_equal(*panels, check_freq=False)


def test_flow_with_sensor_ids_names_its_nodes(tmp_path: Path, put: Put) -> None:
    put(tmp_path, "values", "npz", as_npz(data=np.ones((5, 2, 1))))
    put(tmp_path, "sensors", "csv", b"313344\n313349\n")
    put(tmp_path, "distances", "csv", b"from,to,distance\n313344,313349,0.8\n")
    assert list(READERS.read("flow", {"start": "2018-09-01"}, RawFolder(tmp_path)).values) == ["313344", "313349"]


def test_knowair_takes_the_last_channel(tmp_path: Path, put: Put) -> None:
    data = RNG.uniform(0, 100, (6, 2, 18))
    np.save(tmp_path / "made.npy", data)
    put(tmp_path, "values", "npy", tmp_path / "made.npy")
    put(tmp_path, "cities", "csv", b"0 Beijing 116.4 40.0\n1 Tianjin 117.3 39.1\n")
    table = READERS.read("knowair", {}, RawFolder(tmp_path))
    np.testing.assert_array_equal(table.values["Tianjin"], data[:, 1, -1])
    np.testing.assert_allclose(table.features["temperature/Tianjin"], data[:, 1, 3], rtol=1e-6)
    np.testing.assert_allclose(table.features["wind_north/Beijing"], data[:, 0, 14], rtol=1e-6)
    assert table.values.index[1] == pd.Timestamp("2015-01-01 03:00")


def test_beijing_reads_a_station_from_its_file_and_from_the_archive_of_archives(tmp_path: Path, put: Put) -> None:
    header = "No,year,month,day,hour,PM2.5,TEMP,PRES,DEWP,RAIN,WSPM"
    rows = f"{header}\n1,2013,3,1,0,6,-0.5,1024,-21,0,5\n2,2013,3,1,1,NA,,,,,\n"
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("PRSA/PRSA_Data_Tiantan_20130301-20170228.csv", rows)
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("PRSA2017_Data_20130301-20170228.zip", inner.getvalue())
    tables = []
    for form, content in (("csv.xz", lzma.compress(rows.encode())), ("zip", outer.getvalue())):
        put(tmp_path / form, "stations", "csv", b"station,lat,lon\nTiantan,39.9,116.4\n")
        put(tmp_path / form, "Tiantan", form, content)
        tables.append(READERS.read("beijing", {}, RawFolder(tmp_path / form)))
    for table in tables:
        np.testing.assert_array_equal(table.values["Tiantan"], [6, np.nan])
        assert table.features is not None
        assert table.features["TEMP/Tiantan"].iloc[0] == -0.5


@pytest.mark.parametrize(
    ("form", "content", "line"),
    [
        ("npz", b"PK\x03\x04 cut short", "expected npz with data"),
        ("npz", as_npz(other=np.ones(3)), "expected npz with data"),
        ("parquet", b"PAR1 cut short", "expected parquet"),
    ],
)
def test_a_file_that_is_not_its_form_is_one_line(
    form: str, content: bytes, line: str, tmp_path: Path, put: Put
) -> None:
    put(tmp_path, "distances", "csv", b"from,to,cost\n")
    put(tmp_path, "values", form, content)
    with pytest.raises(InputError, match=line) as caught:
        READERS.read("flow", {"start": "2018-01-01"}, RawFolder(tmp_path))
    assert "\n" not in str(caught.value)
