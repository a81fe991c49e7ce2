"""One's own log of decisions: what it must hold, and the one line that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.trajectories.build import build_trajectories
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.table import TrajectorySet, flat_steps, write_trajectories
from fedloom.errors import InputError

Put = Callable[[Path, str, str, bytes | Path], None]
SETTINGS = TrajectorySettings("mine", "clicked", reader="csv", options={"actions": 3, "longest": 2})
STEPS = """owner,time,action,outcome,propensity,age,weekend
ann,1,0,0,0.5,30,0
bob,1,2,1,0.25,40,1
ann,2,1,1,0.5,,0
ann,3,1,0,,31,1
"""


def build(put: Put, folder: Path, steps: str = STEPS, owners: str | None = None) -> TrajectorySet:
    put(folder, "steps", "csv", steps.encode())
    if owners is not None:
        put(folder, "owners", "csv", owners.encode())
    return build_trajectories(SETTINGS, folder)


def test_a_long_table_becomes_sequences(put: Put, tmp_path: Path) -> None:
    data = build(put, tmp_path / "raw", owners="owner,income\nann,5\nbob,7\ncarl,9\n")
    assert data.table["owner"].tolist() == ["ann", "ann", "bob"]
    assert [t.tolist() for t in data.table["t"]] == [[0, 1], [1], [2]]
    assert [x.tolist() for x in data.table["x"]] == [[5], [5], [7]]
    np.testing.assert_array_equal(flat_steps(data).a, [[30, 0], [np.nan, 0], [31, 1], [40, 1]])
    np.testing.assert_array_equal(flat_steps(data).propensity, [0.5, 0.5, np.nan, 0.25])
    assert data.about["a_kinds"] == ["continuous", "binary"]
    assert data.about["exclusions"] == {"owners_without_steps": 1}
    write_trajectories(data, tmp_path / "out")


def test_without_owners_there_are_no_static_columns(put: Put, tmp_path: Path) -> None:
    data = build(put, tmp_path / "raw")
    assert (data.about["dx"], data.about["x_names"]) == (0, [])
    write_trajectories(data, tmp_path / "out")


def test_a_repeated_row_is_left_out_and_counted(put: Put, tmp_path: Path) -> None:
    data = build(put, tmp_path, STEPS + "ann,3,1,0,,31,1\n")
    assert data.about["exclusions"] == {"duplicate_rows": 1}
    pd.testing.assert_frame_equal(data.table, build(put, tmp_path / "once").table)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bob,1,2,1", "bob,1,3,1", "steps: row 2: action: expected an id from 0 to 2, found 3"),
        ("bob,1,2,1", "bob,1,1.5,1", "steps: row 2: action: expected an id from 0 to 2, found 1.5"),
        ("bob,1,2,1", "bob,1,x,1", "column 'action', row 2: expected a number, found 'x'"),
        ("bob,1,2,1", "bob,1,2,-1", "row 2: outcome: expected a number from 0 to 1, found -1"),
        ("0.25", "0", "row 2: propensity: expected above 0 and at most 1, or empty, found 0.0"),
        ("0.25", "1.01", "row 2: propensity: expected above 0 and at most 1, or empty, found 1.01"),
        ("ann,2,1,1", "ann,0,1,1", "row 3: time: expected one that does not lie before the owner's last, found 0"),
        ("ann,2,1,1", "ann,,1,1", "row 3: time: expected a number or a stamp, found nan"),
        ("bob,1,2", ",1,2", "row 2: owner: expected a name, found nan"),
        ("owner,time", "name,time", "expected columns owner, time, action, outcome, found no 'owner'"),
    ],
)
def test_what_is_wrong_is_named_by_row_and_field(old: str, new: str, message: str, put: Put, tmp_path: Path) -> None:
    assert old in STEPS
    with pytest.raises(InputError, match=message) as caught:
        build(put, tmp_path, STEPS.replace(old, new))
    assert "\n" not in str(caught.value)


def test_stamps_are_times_too(put: Put, tmp_path: Path) -> None:
    stamped = STEPS.replace(",1,", ",2024-01-01 10:00,", 2).replace("ann,2,", "ann,2024-01-01 11:00,")
    with pytest.raises(InputError, match=r"column 'time', row 4: expected a stamp like .*, found '3'"):
        build(put, tmp_path / "a", stamped)
    data = build(put, tmp_path / "b", stamped.replace("ann,3,", "ann,2024-01-02 00:00,"))
    assert [t.tolist() for t in data.table["t"]] == [[0, 1], [1], [2]]


def test_stamps_with_offsets_are_in_order_although_the_clock_goes_back(put: Put, tmp_path: Path) -> None:
    stamped = STEPS.replace("ann,1,", "ann,2024-10-27T02:30:00+02:00,").replace(
        "ann,2,", "ann,2024-10-27T02:10:00+01:00,"
    )
    stamped = stamped.replace("ann,3,", "ann,2024-10-27T03:00:00+01:00,").replace("bob,1,", "bob,2024-10-27T00:00Z,")
    assert [t.tolist() for t in build(put, tmp_path, stamped).table["t"]] == [[0, 1], [1], [2]]


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        ("owner,income\nann,5\n", "owners: owner: expected every owner of the steps, found no 'bob'"),
        ("owner,income\nann,5\nann,5\nbob,1\n", "owners: row 2: owner: expected each owner once, found ann"),
        ("owner,income\nann,much\nbob,1\n", "column 'income'.*expected a number, found 'much'"),
        ("name,income\nann,5\n", "expected a column 'owner', found none"),
    ],
)
def test_what_is_wrong_with_the_owners_is_named(owners: str, message: str, put: Put, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        build(put, tmp_path, owners=owners)


@pytest.mark.parametrize(
    ("reader", "options", "message"),
    [
        ("cvs", {}, "reader: expected one of csv, diabetes, open_bandit, statics, found 'cvs'"),
        ("csv", {}, "options of reader csv: expected 'actions', found none"),
        ("csv", {"actions": 3, "longst": 2}, "options of reader csv: expected actions, longest, found 'longst'"),
    ],
)
def test_an_unknown_reader_or_option_is_named(
    reader: str, options: dict[str, int], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        build_trajectories(TrajectorySettings("mine", "clicked", reader=reader, options=options), tmp_path)
