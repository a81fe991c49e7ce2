"""One's own CSV becomes a panel; what is wrong with it is said in one line that names file, place and value."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.config.dataset import read_dataset
from fedloom.data.download import fetch
from fedloom.data.panels.build import build_panel
from fedloom.data.panels.panel import Panel, read_panel
from fedloom.data.panels.settings import Graph, PanelSettings, Select
from fedloom.errors import InputError
from fedloom.partition.folder import PanelPartition, read_partition

SETTINGS = PanelSettings("mine", "mph", 5, missing=-9999, reader="csv")
STAMP = "expected a stamp like 2024-03-31, 2024-03-31 14:00 or 2024-03-31T14:00:00\\+02:00"
VALUES = "time,a,b\n2024-01-01 00:00,1,4\n2024-01-01 00:05,-9999,\n2024-01-01 00:10,0,6\n"
NODES = "id,lat,lon\na,48.0,11.0\nb,48.1,11.1\n"


Build = Callable[..., Panel]


@pytest.fixture
def build(put: Callable[..., None], tmp_path: Path) -> Build:
    """Build the panel of the CSV text ``values`` and of further files by key."""

    def make(values: str = VALUES, settings: PanelSettings = SETTINGS, **more: str) -> Panel:
        for key, text in ({"values": values} | more).items():
            put(tmp_path, key, "csv", text.encode())
        return build_panel(settings, tmp_path)

    return make


def test_readings_literals_and_empty_cells(build: Build) -> None:
    panel = build()
    np.testing.assert_array_equal(panel.values.to_numpy(), [[1, 4], [np.nan, np.nan], [0, 6]])
    assert panel.about["missing_share"] == pytest.approx(1 / 3)
    assert panel.nodes["lat"].isna().all()
    assert panel.edges.empty


def test_nodes_edges_and_covariates_are_optional(build: Build) -> None:
    edges = "src,dst,weight\na,b,0.5\n"
    features = "time,rain\n2024-01-01 00:00,1\n2024-01-01 00:10,2\n"
    panel = build(nodes=NODES, edges=edges, features=features)
    assert panel.nodes.loc["b", "lat"] == 48.1
    assert panel.edges.to_dict("records") == [{"src": "a", "dst": "b", "weight": 0.5}]
    np.testing.assert_array_equal(panel.features["rain"], [1, np.nan, 2])


def test_positions_can_make_the_graph(build: Build) -> None:
    settings = PanelSettings("mine", "mph", 5, missing=-9999, reader="csv", graph=Graph("positions", threshold=0.0))
    panel = build(settings=settings, nodes=NODES)
    assert set(zip(panel.edges["src"], panel.edges["dst"], strict=True)) == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ("", "values: expected a table, found an empty file"),
        ("time,a\n", "values: expected stamps and at least one node"),
        (VALUES.replace("0,6", "fast,6"), "values: column 'a', row 3: expected a number, found 'fast'"),
        (VALUES.replace("2024-01-01 00:05", "noon"), f"values: column 'time', row 2: {STAMP}, found 'noon'"),
        (
            VALUES.replace("2024-01-01", "04.03.2024"),
            f"values: column 'time', row 1: {STAMP}, found '04.03.2024 00:00'",
        ),
        (
            VALUES.replace("2024-01-01", "01/04/2024"),
            f"values: column 'time', row 1: {STAMP}, found '01/04/2024 00:00'",
        ),
        (VALUES.replace("2024-01-01 00:10", "2024-02-30 00:10"), f"row 3: {STAMP}, found '2024-02-30 00:10'"),
        (VALUES.replace("2024-01-01 00:10", "9999-12-31 00:10"), f"row 3: {STAMP}, found '9999-12-31 00:10'"),
        (VALUES.replace("2024-01-01 00:10", ""), f"row 3: {STAMP}, found 'nan'"),
        (VALUES.replace("a,b", "a,a"), "values: expected each column once, found 'a' twice"),
        (VALUES.replace("1,4", "1,").replace("0,6", "0,"), "mine: node b: expected readings, found none in 3 steps"),
        (VALUES.replace("00:10", "00:07"), "mine: stamps: expected one every 5 minutes, found 2024-01-01 00:07"),
        (
            VALUES.replace("00:05", "00:05+01:00"),
            r"row 2: expected a stamp with no offset from UTC, as in row 1, found '2024-01-01 00:05\+01:00'",
        ),
        (VALUES.replace("0,6", "0,6,7,8"), "values: expected csv, found"),
    ],
)
def test_a_defect_is_one_line(values: str, line: str, build: Build) -> None:
    with pytest.raises(InputError, match=line) as caught:
        build(values)
    assert "\n" not in str(caught.value)


def across_the_change_of_clocks(start: str) -> str:
    """Six hours of a CSV from ``start`` on as Vienna's clock shows them, each stamp with its offset."""
    hours = pd.date_range(start, periods=6, freq="h", tz="UTC").tz_convert("Europe/Vienna")
    return "time,a\n" + "".join(f"{hour.isoformat()},{i}\n" for i, hour in enumerate(hours))


@pytest.mark.parametrize("start", ["2024-03-30 23:00", "2024-10-26 22:00"])
def test_stamps_with_offsets_are_utc_where_no_zone_is_named(start: str, build: Build) -> None:
    panel = build(across_the_change_of_clocks(start), PanelSettings("mine", "mph", 60, reader="csv"))
    assert panel.values.index.equals(pd.date_range(start, periods=6, freq="h"))
    np.testing.assert_array_equal(panel.values["a"], range(6))
    assert panel.about["repairs"] == {}


def test_stamps_with_offsets_are_brought_to_the_clock_that_is_named(build: Build) -> None:
    settings = PanelSettings("mine", "mph", 60, reader="csv", timezone="Europe/Vienna")
    rain = "time,rain\n2024-03-31 03:00,7\n"
    spring = build(across_the_change_of_clocks("2024-03-30 23:00"), settings, features=rain)
    assert [f"{stamp:%H}" for stamp in spring.values.index] == ["00", "01", "03", "04", "05", "06"]
    assert spring.features["rain"].dropna().to_dict() == {pd.Timestamp("2024-03-31 03:00"): 7}
    autumn = build(across_the_change_of_clocks("2024-10-26 22:00"), settings)
    assert [f"{stamp:%H}" for stamp in autumn.values.index] == ["00", "01", "02", "03", "04"]
    np.testing.assert_array_equal(autumn.values["a"], [0, 1, 2, 4, 5])  # of the hour shown twice, the first


def test_a_column_that_the_list_of_nodes_does_not_have_is_refused(build: Build) -> None:
    with pytest.raises(InputError, match="mine: column 'b': expected a node that the list of nodes has"):
        build(nodes=NODES.replace("b,", "c,"))


def test_a_list_of_nodes_without_places_is_refused(build: Build) -> None:
    with pytest.raises(InputError, match="nodes: expected columns id, lat, lon, found no 'lon'"):
        build(nodes=NODES.replace("lon", "longitude"))


def test_an_edge_to_an_unknown_node_is_refused(build: Build) -> None:
    with pytest.raises(InputError, match="edges: expected ends that are nodes, found 'z'"):
        build(edges="src,dst,weight\na,z,1\n")


def test_an_unknown_reader_option_or_selected_node_is_refused(build: Build) -> None:
    with pytest.raises(InputError, match=r"reader: expected one of .*csv.*, found 'cvs'"):
        build(settings=PanelSettings("mine", "mph", 5, reader="cvs"))
    with pytest.raises(InputError, match="options of reader csv: expected none, found 'sep'"):
        build(settings=PanelSettings("mine", "mph", 5, reader="csv", options={"sep": ";"}))
    chosen = PanelSettings("mine", "mph", 5, reader="csv", part="one node", select=Select(nodes=("z",)))
    with pytest.raises(InputError, match=r"select.nodes: expected nodes of the data, found 'z'"):
        build(settings=chosen)


def test_the_three_steps_turn_a_csv_into_a_partition(tmp_path: Path) -> None:
    rows = [f"2024-01-01 {i // 12:02d}:{i % 12 * 5:02d},{i},{i * i}" for i in range(240)]
    (tmp_path / "mine.csv").write_text("\n".join(["time,a,b", *rows]))
    (tmp_path / "mine.yaml").write_text(f"""
title: Mine
licence: my own
files:
  values: {{forms: [{{form: csv, path: {tmp_path / "mine.csv"}}}]}}
panel: {{unit: mph, interval_minutes: 5, reader: csv}}
partition: {{split: [0.6, 0.2, 0.2]}}
""")
    dataset = read_dataset(tmp_path / "mine.yaml")
    assert dataset.own_files("values") == [str(tmp_path / "mine.csv")]
    script("fetch", dataset.fetch_section("values"), "--name", "mine/values", "--lock", tmp_path / "lock.json",
           "--out", tmp_path / "raw" / "values")  # fmt: skip
    script("panel", dataset.settings("panel"), "--raw", tmp_path / "raw", "--out", tmp_path / "panel")
    script(
        "partition_panel", dataset.settings("partition"), "--panel", tmp_path / "panel", "--out", tmp_path / "partition"
    )
    assert read_panel(tmp_path / "panel").values["b"].iloc[-1] == 239**2
    assert read_partition(PanelPartition, tmp_path / "partition").clients.loc["a", "test"] == 48 - 23
    assert not (tmp_path / "lock.json").exists()


def test_ones_own_file_may_change(tmp_path: Path) -> None:
    own = tmp_path / "mine.csv"
    (tmp_path / "mine.yaml").write_text(
        f"title: Mine\nlicence: my own\nfiles:\n  values: {{forms: [{{form: csv, path: {own}}}]}}\n"
        "panel: {unit: mph, interval_minutes: 5, reader: csv}\n"
    )
    file = read_dataset(tmp_path / "mine.yaml").files["values"]
    for text in (VALUES, VALUES.replace("4", "5")):
        own.write_text(text)
        fetch(file, "mine/values", tmp_path / "raw" / "values", tmp_path / "lock.json")
        assert (tmp_path / "raw" / "values").read_text() == text
    own.unlink()
    with pytest.raises(InputError, match=r"mine.csv: No such file"):
        fetch(file, "mine/values", tmp_path / "raw" / "values", tmp_path / "lock.json")


def test_a_script_ends_with_one_line_and_a_status(tmp_path: Path) -> None:
    done = script("panel", json.dumps({"dataset": "mine"}), "--raw", tmp_path, "--out", tmp_path / "panel", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("fedloom: error: --config: ")
    assert done.stderr.count("\n") == 1


def script(name: str, config: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    path = Path(__file__).parents[3] / "scripts" / f"{name}.py"
    line = [sys.executable, str(path), "--config", config, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=check)
