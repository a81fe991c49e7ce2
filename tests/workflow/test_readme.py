"""The worked examples of README.md do what it says, word for word."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

FILE = re.compile(r"`([\w/]+\.(?:yaml|py))`[^`]*```\w+\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^snakemake (.*)$", re.MULTILINE)


def follow(project, text: str) -> None:
    """Write every file that ``text`` shows and run every command in it."""
    for path, content in FILE.findall(text):
        (project.root / path).write_text(content)
    for command in COMMAND.findall(text):
        project.run(*shlex.split(command, comments=True))


def section(repository: Path, title: str) -> str:
    """The text below a heading of README.md."""
    _, text = (repository / "README.md").read_text().split(f"\n## {title}\n")
    return text.split("\n## ")[0]


def part(text: str, title: str) -> str:
    """What stands below a heading inside a section."""
    return text.split(f"### {title}\n")[1].split("\n### ")[0]


def write_counts(path: Path, missing: str) -> None:
    """Three sensors, 20 days of hours with a daily pattern and a few missing readings."""
    stamps = pd.date_range("2024-01-01", periods=480, freq="h", name="time")
    hours = np.arange(480)
    columns = {f"s{i}": 50 + 20 * np.sin(2 * np.pi * (hours + i) / 24) for i in range(3)}
    frame = pd.DataFrame(columns, index=stamps).round(1)
    frame.iloc[5:9, 1] = np.nan
    path.parent.mkdir(exist_ok=True)
    frame.to_csv(path, na_rep=missing)


def test_your_own_data_make_a_table_and_are_read_again_when_they_change(fresh, repository: Path) -> None:
    write_counts(fresh.root / "data" / "mine.csv", missing="")
    follow(fresh, part(section(repository, "Your own data"), "Sensors"))
    table = (fresh.root / "results" / "atlas" / "table1.md").read_text()
    assert all(name in table for name in ("Atlas", "FedAvg", "Local", "Persistence"))
    panel = "results/data/mine/panel/values.parquet"
    assert not fresh.planned("--config", "scale=mine", "--", panel)
    path = fresh.root / "data" / "mine.csv"
    path.write_text(path.read_text().replace("50.0", "51.0"))
    assert fresh.planned("--config", "scale=mine", "--", panel) == {"fetch values of mine", "panel of mine"}


def write_trips(path: Path) -> None:
    """Four weeks of trips between three quarters of a town, with rows as such files have them."""
    rng = np.random.default_rng(0)
    begin = int(pd.Timestamp("2024-03-11", tz="Europe/Vienna").timestamp())
    start = begin + rng.integers(0, 28 * 86400, 6000)
    quarter = np.array([[48.20, 16.37], [48.22, 16.35], [48.18, 16.39]])
    ends = [quarter[rng.integers(0, 3, 6000)] + rng.normal(0, 0.004, (6000, 2)) for _ in range(2)]
    columns = {"vehicle": rng.integers(0, 60, 6000), "start_t": start, "start_lat": ends[0][:, 0]}
    columns |= {"start_lon": ends[0][:, 1], "end_t": start + rng.integers(300, 2400, 6000)}
    table = pd.DataFrame(columns | {"end_lat": ends[1][:, 0], "end_lon": ends[1][:, 1]}).astype(object)
    table.loc[5, "start_lat"] = None
    table.loc[7, ["start_lat", "start_lon"]] = [16.37, 48.20]
    table.loc[9, "start_t"] = "yesterday"
    path.parent.mkdir(exist_ok=True)
    table.to_csv(path, index=False)


def test_your_own_trips_are_counted_by_hexagon_and_forecast(fresh, repository: Path) -> None:
    write_trips(fresh.root / "data" / "trips.csv")
    follow(fresh, part(section(repository, "Your own data"), "Trips"))
    about = json.loads((fresh.root / "results" / "data" / "mytrips" / "panel" / "about.json").read_text())
    assert about["nodes"] == 8
    assert about["rows"] == 28 * 24 - 1  # clocks went forward on the last day of March
    assert about["repairs"]["rows_without_stamp"] == 1
    table = (fresh.root / "results" / "st_split_vfl" / "table_accuracy.md").read_text()
    assert all(name in table for name in ("mytrips", "ST-SplitVFL", "Local LSTM"))


def write_log(path: Path) -> None:
    """Two hundred owners who are treated more often when they are worse, some rows twice, one owner of one step."""
    rng = np.random.default_rng(0)
    rows = []
    for owner in range(200):
        state = rng.normal()
        for time in range(1 if owner == 3 else 8):
            action = int(rng.choice(3, p=[0.5, 0.3, 0.2] if state > 0 else [0.2, 0.3, 0.5]))
            outcome = int(rng.random() < 1 / (1 + np.exp(-state - 0.5 * action)))
            rows.append((f"p{owner}", time, action, outcome, round(state, 3)))
            state = 0.8 * state + 0.3 * action - 0.3 + 0.3 * rng.normal()
    table = pd.DataFrame(rows, columns=["owner", "time", "action", "outcome", "severity"])
    path.parent.mkdir(exist_ok=True)
    pd.concat([table, table.iloc[40:43]]).sort_index(kind="stable").to_csv(path, index=False)


def test_your_own_log_of_decisions_gets_values_of_policies(fresh, repository: Path) -> None:
    write_log(fresh.root / "data" / "steps.csv")
    follow(fresh, part(section(repository, "Your own data"), "Decisions and outcomes"))
    about = json.loads((fresh.root / "results" / "data" / "mylog" / "trajectories" / "about.json").read_text())
    assert about["rows"] == 200
    assert about["exclusions"]["duplicate_rows"] == 3
    table = (fresh.root / "results" / "fed_causaldiff" / "table_values.md").read_text()
    assert all(name in table for name in ("mylog: Fed-CausalDiff", "Never, estimated propensity", "Always"))


def test_your_own_series_are_rebuilt(fresh, repository: Path) -> None:
    rng = np.random.default_rng(0)
    (fresh.root / "data").mkdir(exist_ok=True)
    time = pd.date_range("2024-01-01", periods=1500, freq="min")
    pump = pd.DataFrame({"time": time, "flow": np.sin(np.arange(1500) / 9), "load": rng.normal(5, 1, 1500)})
    pump.loc[100:130, "flow"] = np.nan
    pump.to_csv(fresh.root / "data" / "pump.csv", index=False)
    heart = pd.DataFrame({"beat": np.cos(np.arange(900) / 5) * 30 + 70}).round(2)
    heart.loc[50:52, "beat"] = -999
    heart.to_csv(fresh.root / "data" / "heart.csv", index=False)
    follow(fresh, part(section(repository, "Your own data"), "Series"))
    about = json.loads((fresh.root / "results" / "data" / "myseries" / "series" / "about.json").read_text())
    assert sorted(about["clients"]) == ["heart", "pump"]
    assert about["counts"]["heart"]["missing"] == 3
    table = (fresh.root / "results" / "fedal" / "table1.md").read_text()
    assert all(name in table for name in ("FeDaL", "FedAvg"))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server that holds ``counts.csv``."""
    write_counts(tmp_path / "served" / "counts.csv", missing="-1")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_add_a_dataset(fresh, repository: Path, address: str) -> None:
    follow(fresh, section(repository, "Add a dataset").replace("https://example.org", address))
    values = pd.read_parquet(fresh.root / "results" / "data" / "counts" / "panel" / "values.parquet")
    assert values.shape == (480, 3)
    assert values.isna().sum().tolist() == [0, 4, 0]
    assert "counts/values" in (fresh.root / "config" / "datasets" / "lock.json").read_text()


def test_add_a_method(fresh, repository: Path) -> None:
    follow(fresh, section(repository, "Add a method"))
    assert "median" in (fresh.root / "results" / "atlas" / "table1.md").read_text()


def test_without_snakemake(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_counts(tmp_path / "data" / "mine.csv", missing="")
    text = section(repository, "Without Snakemake")
    (shown,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(shown, names)
    assert list(names["forecast"].columns) == ["s0", "s1", "s2"]
    assert names["forecast"].index[0] == pd.Timestamp("2024-01-21")
    pd.testing.assert_frame_equal(names["again"].forecast(names["panel"]), names["forecast"])
