"""A panel is the same after writing and reading, and a panel that breaks its schema is refused in one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedloom.data.panels.panel import Panel, edge_table, no_edges, read_panel, write_panel
from fedloom.errors import InputError


def small_panel() -> Panel:
    stamps = pd.date_range("2024-01-01", periods=4, freq="5min", name="timestamp")
    values = pd.DataFrame({"a": [1, np.nan, 0, 4], "b": [5, 6, 7, 8]}, index=stamps, dtype=np.float32)
    nodes = pd.DataFrame({"lat": [48.1, np.nan], "lon": [11.5, np.nan]}, index=pd.Index(["a", "b"], name="id"))
    about: dict[str, object] = {
        "dataset": "small",
        "part": None,
        "unit": "mph",
        "interval_minutes": 5,
        "missing_literal": None,
        "rows": 4,
        "nodes": 2,
        "missing_share": 0.125,
        "repairs": {},
    }
    return Panel(values, nodes, edge_table(["a"], ["b"], [0.5]), about=about)


def test_reading_gives_back_what_was_written(tmp_path: Path) -> None:
    panel = small_panel()
    write_panel(panel, tmp_path)
    again = read_panel(tmp_path)
    pd.testing.assert_frame_equal(again.values, panel.values, check_freq=False)
    pd.testing.assert_frame_equal(again.nodes, panel.nodes)
    pd.testing.assert_frame_equal(again.edges, panel.edges)
    assert again.about == panel.about
    assert len(again.features.columns) == len(again.truth.columns) == 0


def test_a_missing_reading_is_null_on_disk_and_a_zero_stays_zero(tmp_path: Path) -> None:
    write_panel(small_panel(), tmp_path)
    assert pq.read_table(tmp_path / "values.parquet")["a"].to_pylist() == [1.0, None, 0.0, 4.0]


def test_a_panel_without_graph_keeps_the_columns_of_its_edges(tmp_path: Path) -> None:
    write_panel(dataclasses.replace(small_panel(), edges=no_edges()), tmp_path)
    assert list(read_panel(tmp_path).edges.columns) == ["src", "dst", "weight"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda p: {"values": p.values.iloc[::-1]}, "strictly increasing stamps"),
        (lambda p: {"values": p.values.astype("float64")}, "float32 columns"),
        (lambda p: {"values": p.values.replace(5, np.inf)}, "an infinite one"),
        (lambda p: {"values": p.values.iloc[:0]}, "at least one row"),
        (lambda p: {"values": p.values.tz_localize("UTC")}, "naive local time"),
        (lambda p: {"nodes": p.nodes.iloc[::-1]}, "one row a column of values"),
        (lambda p: {"nodes": p.nodes.assign(role=["idle", "active"])}, "role: expected active or passive"),
        (lambda p: {"nodes": p.nodes.assign(horizon=[0, 3])}, "horizon: expected at least 1 step, found 0"),
        (lambda p: {"edges": edge_table(["a"], ["z"], [1])}, "found node 'z'"),
        (lambda p: {"edges": edge_table(["a", "a"], ["b", "b"], [1, 2])}, "a pair twice"),
        (lambda p: {"edges": edge_table(["a"], ["b"], [0])}, "positive finite"),
        (lambda p: {"about": {}}, "no dataset"),
    ],
)
def test_a_broken_panel_is_refused_when_written(change, line: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    panel = small_panel()
    with pytest.raises(InputError, match=line):
        write_panel(dataclasses.replace(panel, **change(panel)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_whole_panel_is_refused_when_read(tmp_path: Path) -> None:
    write_panel(small_panel(), tmp_path)
    (tmp_path / "edges.parquet").write_bytes(b"<html>")
    with pytest.raises(InputError, match=r"edges.parquet: expected a parquet table"):
        read_panel(tmp_path)
    (tmp_path / "edges.parquet").unlink()
    with pytest.raises(InputError, match=r"edges.parquet: .* found no such file"):
        read_panel(tmp_path)


def test_a_panel_that_another_stage_broke_is_refused_when_read(tmp_path: Path) -> None:
    write_panel(small_panel(), tmp_path)
    about = json.loads((tmp_path / "about.json").read_text())
    del about["unit"]
    (tmp_path / "about.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="no unit"):
        read_panel(tmp_path)
