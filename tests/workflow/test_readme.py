"""The worked examples of README.md do what it says, word for word."""

from __future__ import annotations

import http.server
import re
import shlex
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

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
    follow(fresh, section(repository, "Your own data"))
    table = (fresh.root / "results" / "atlas" / "table1.md").read_text()
    assert all(name in table for name in ("Atlas", "FedAvg", "Local", "Persistence"))
    panel = "results/data/mine/panel/values.parquet"
    assert not fresh.planned("--config", "scale=mine", "--", panel)
    path = fresh.root / "data" / "mine.csv"
    path.write_text(path.read_text().replace("50.0", "51.0"))
    assert fresh.planned("--config", "scale=mine", "--", panel) == {"fetch values of mine", "panel of mine"}


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
