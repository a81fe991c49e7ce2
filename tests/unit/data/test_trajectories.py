"""The artifact: what goes in comes out, and each breach of the schema is one line that names the place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.trajectories.table import (
    Steps,
    TrajectorySet,
    flat_steps,
    pad,
    read_trajectories,
    trajectory_table,
    write_trajectories,
)
from fedloom.errors import InputError


def toy(lengths: list[int], actions: int = 3, seed: int = 0) -> TrajectorySet:
    draw = np.random.default_rng(seed)
    n, steps = len(lengths), sum(lengths)
    flat = Steps(
        start=np.r_[0, np.cumsum(lengths)].astype(np.int64),
        x=draw.normal(size=(n, 2)).astype(np.float32),
        a=draw.normal(size=(steps, 3)).astype(np.float32),
        t=draw.integers(0, actions, steps).astype(np.int32),
        y=draw.integers(0, 2, steps).astype(np.float32),
        propensity=draw.uniform(0.1, 1, steps),
    )
    about = {
        "dataset": "toy",
        "part": None,
        "unit": "clicked",
        "actions": actions,
        "other_action": None,
        "dx": 2,
        "da": 3,
        "longest": max(lengths),
        "x_names": ["u", "v"],
        "a_names": ["p", "q", "r"],
        "a_kinds": ["continuous"] * 3,
        "rows": n,
        "owners": n,
        "exclusions": {},
    }
    return TrajectorySet(trajectory_table(range(n), [f"owner{i}" for i in range(n)], flat), about)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_flat_and_padded_forms_hold_the_same_steps(lengths: list[int]) -> None:
    data = toy(lengths)
    flat, padded = flat_steps(data), pad(data)
    assert flat.length.tolist() == padded.mask.sum(axis=1).tolist() == lengths
    for name in ("a", "t", "y", "propensity"):
        np.testing.assert_array_equal(getattr(padded, name)[padded.mask], getattr(flat, name))
    assert (padded.t[~padded.mask] == data.about["actions"]).all()
    assert np.isnan(padded.propensity[~padded.mask]).all()


def test_a_written_artifact_reads_back_equal_with_unknown_entries(tmp_path: Path) -> None:
    data = toy([2, 1, 3])
    data.table["a"].iloc[0][1] = np.nan
    data.table["propensity"].iloc[2][:] = np.nan
    write_trajectories(data, tmp_path)
    again = read_trajectories(tmp_path)
    assert again.about == data.about
    for name in ("id", "owner", "label"):
        assert again.table[name].tolist() == data.table[name].tolist()
    for name in ("x", "a", "t", "y", "propensity"):
        for found, expected in zip(again.table[name], data.table[name], strict=True):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_a_sequence_longer_than_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match="toy: expected at most 2 steps a sequence, found 3"):
        pad(toy([1, 3]), 2)


def _set(column: str, row: int, value: object) -> Callable[[pd.DataFrame], None]:
    def change(table: pd.DataFrame) -> None:
        table[column] = pd.Series([value if place == row else old for place, old in enumerate(table[column])])

    return change


BREACHES = [
    (_set("t", 1, np.array([0, 3], np.int32)), "sequence 1, step 2, action: expected an id from 0 to 2, found 3"),
    (_set("t", 0, np.array([-1, 0], np.int32)), "sequence 0, step 1, action: expected an id from 0 to 2, found -1"),
    (_set("t", 1, np.array([], np.int32)), "sequence 1: expected at least one step, found none"),
    (_set("t", 1, None), "sequence 1: expected at least one step, found none"),
    (_set("t", 1, np.array([0, 1, 2], np.int32)), "sequence 1: expected at most 2 steps, found 3"),
    (_set("y", 1, np.array([0, 2], np.float32)), "sequence 1, step 2, outcome: expected a number from 0 to 1, found 2"),
    (_set("y", 1, np.array([0, np.nan], np.float32)), "outcome: expected a number from 0 to 1, found nan"),
    (_set("y", 0, np.array([1], np.float32)), "sequence 0, y: expected 2 values, found 1"),
    (
        _set("propensity", 0, np.array([0.0, 1])),
        "step 1, propensity: expected above 0 and at most 1, or unknown, found 0",
    ),
    (_set("propensity", 1, np.array([0.5, 1.5])), "sequence 1, step 2, propensity: .*found 1.5"),
    (_set("a", 1, np.array([0] * 5 + [np.inf], np.float32)), "sequence 1, step 2, context, entry 3: .*found inf"),
    (_set("x", 1, np.array([np.inf, 0], np.float32)), "sequence 1, x: expected finite numbers"),
    (_set("id", 1, 0), "id: expected each sequence once, found id 0 twice"),
    (_set("owner", 1, ""), "owners: expected 2|sequence 1: expected an owner, found none"),
]


@pytest.mark.parametrize(("change", "message"), BREACHES)
def test_each_breach_is_one_line_that_names_the_place(
    change: Callable[[pd.DataFrame], None], message: str, tmp_path: Path
) -> None:
    data = toy([2, 2])
    change(data.table)
    with pytest.raises(InputError, match=message) as caught:
        write_trajectories(data, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "about.json").exists()


def test_what_about_must_tell_is_named() -> None:
    data = toy([2])
    for key, message in (("actions", "no actions"), ("unit", "no unit")):
        about = {name: value for name, value in data.about.items() if name != key}
        with pytest.raises(InputError, match=message):
            write_trajectories(TrajectorySet(data.table, about), Path("nowhere"))
    about = data.about | {"a_kinds": ["number", "continuous", "continuous"]}
    with pytest.raises(InputError, match="a_kinds: expected continuous, binary, category, found number"):
        write_trajectories(dataclasses.replace(data, about=about), Path("nowhere"))


def test_missing_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"about.json: expected what the tables beside it are, found no such file"):
        read_trajectories(tmp_path)
    write_trajectories(toy([1]), tmp_path)
    pd.DataFrame({"id": [1]}).to_parquet(tmp_path / "trajectories.parquet")
    with pytest.raises(InputError, match=r"trajectories.parquet: columns: expected id int64, .*found id int64"):
        read_trajectories(tmp_path)
    (tmp_path / "trajectories.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="expected a parquet table"):
        read_trajectories(tmp_path)
