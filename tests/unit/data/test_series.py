"""The artifact of series comes back as it was written, and breaches of its schema are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.series.table import SCHEMA, SeriesSet, describe, read_series, write_series
from fedloom.errors import InputError

ROWS = [
    {"client": "river", "id": "a", "channel": "flow", "domain": "nature", "values": [1.0, np.nan, 3.0]},
    {"client": "watch", "id": "train-0", "channel": "x", "domain": "motion", "values": [0.5, 0.25], "label": [2]},
]
COMMON = {"seconds": 60.0, "start": pd.NaT, "season": 0, "validation": -1, "test": -1, "tasks": [], "label": None}


def series(rows: list[dict] = ROWS) -> SeriesSet:
    table = pd.DataFrame([COMMON | row for row in rows])[SCHEMA.names]
    table["values"] = [np.array(values, np.float32) for values in table["values"]]
    about = {"dataset": "x", "part": None, "exclusions": {}, "cleaned": {}, "seen": [], "bias": {}}
    return SeriesSet(table, about | describe(table))


def test_series_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_series(series(), tmp_path)
    found = read_series(tmp_path)
    assert found.about == series().about
    assert found.table.drop(columns=["values", "tasks", "label"]).equals(
        series()
        .table.astype({"season": "int32"})
        .drop(columns=["values", "tasks", "label"])
        .assign(start=found.table["start"])
    )
    for mine, theirs in zip(series().table["values"], found.table["values"], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert found.table["label"].iloc[0] is None
    assert list(found.table["label"].iloc[1]) == [2]
    assert found.about["counts"]["river"] == {"series": 1, "points": 3, "missing": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.assign(id="a", client="river", channel="flow"), "id: expected each channel"),
        (lambda t: t.assign(values=[np.array([np.inf], np.float32)] * 2), "values: expected at least one float32"),
        (lambda t: t.assign(values=[np.empty(0, np.float32)] * 2), "values: expected at least one float32"),
        (lambda t: t.assign(seconds=-1.0), "seconds: expected a positive number"),
        (lambda t: t.assign(validation=2, test=1), "validation: expected 0 <= validation <= test"),
        (lambda t: t.assign(test=1), "validation: expected 0 <= validation <= test"),
        (lambda t: t.assign(tasks=[["guess"], []]), "tasks: expected some of forecast"),
        (lambda t: t.assign(label=[[0, 1], [2]]), "label: expected one entry a point"),
    ],
)
def test_a_breach_is_named_with_the_series(
    change: Callable[[pd.DataFrame], pd.DataFrame], said: str, tmp_path: Path
) -> None:
    table = change(series().table)
    with pytest.raises(InputError, match=said):
        write_series(SeriesSet(table, series().about | describe(table)), tmp_path)
    assert not (tmp_path / "about.json").exists()


def test_counts_that_are_not_those_of_the_rows_are_refused(tmp_path: Path) -> None:
    data = series()
    with pytest.raises(InputError, match="seen: expected clients of the data, found 'sea'"):
        write_series(SeriesSet(data.table, data.about | {"seen": ["sea"]}), tmp_path)
    with pytest.raises(InputError, match="counts: expected those of the rows"):
        write_series(SeriesSet(data.table, data.about | {"counts": {}}), tmp_path)
