"""Grouping, ordering, cutting and the split of owners: functions of names and times, never of the order of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.trajectories.owners import SHARES, owner_parts
from fedloom.data.trajectories.sequences import Codes, cut, one_hot

OWNERS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=60).map(
    lambda names: np.asarray(names, dtype=np.str_)
)


@given(OWNERS, st.integers(1, 7), st.integers(1, 4))
def test_chunks_hold_each_kept_step_once_in_order_of_time(owner: np.ndarray, longest: int, least: int) -> None:
    time = np.random.default_rng(0).permutation(len(owner))
    parts = cut(owner, time, longest, least)
    lengths = np.diff(parts.start)
    assert ((lengths >= least) & (lengths <= longest)).all()
    assert len(np.unique(parts.order)) == len(parts.order) == parts.start[-1]
    for first, last in zip(parts.start[:-1], parts.start[1:], strict=True):
        rows = parts.order[first:last]
        assert len(set(owner[rows])) == 1
        assert (np.diff(time[rows]) > 0).all()
        assert (np.diff(parts.position[first:last]) == 1).all()
    # Only an owner's last chunk can be short: what is left out is the remainder of a division.
    _, records = np.unique(owner, return_counts=True)
    left_out = sum(rest for rest in records % longest if 0 < rest < least) + (
        sum(records - records % longest) if longest < least else 0
    )
    assert len(owner) - len(parts.order) == left_out


@given(OWNERS, st.integers(1, 7), st.randoms())
def test_the_order_of_rows_does_not_matter(owner: np.ndarray, longest: int, random: object) -> None:
    time = np.arange(len(owner))
    shuffled = np.random.default_rng(random.randint(0, 9)).permutation(len(owner))  # type: ignore[attr-defined]
    one, other = cut(owner, time, longest), cut(owner[shuffled], time[shuffled], longest)
    np.testing.assert_array_equal(one.order, shuffled[other.order])
    np.testing.assert_array_equal(one.start, other.start)


@given(st.integers(1, 300), st.randoms())
def test_owners_stay_whole_and_parts_have_their_shares(count: int, random: object) -> None:
    names = [f"patient{number}" for number in range(count)]
    rows = names + names[: count // 2]
    random.shuffle(rows)  # type: ignore[attr-defined]
    part = pd.Series(owner_parts(rows), index=rows)
    assert part.groupby(level=0).nunique().eq(1).all()
    whole = part[~part.index.duplicated()]
    for name in ("validation", "test"):
        assert (whole == name).sum() == int(SHARES[name] * count + 1e-9)
    pd.testing.assert_series_equal(whole.sort_index(), pd.Series(owner_parts(sorted(names)), index=sorted(names)))


def test_codes_know_only_what_training_had() -> None:
    codes = Codes.of(pd.Series(["b", "a", "b"]))
    assert codes.count == 3
    assert codes(pd.Series(["a", "b", "c"])).tolist() == [1, 2, 0]


def test_a_value_that_is_no_group_has_no_one() -> None:
    assert one_hot(pd.Series(["x", "z"]), ("x", "y")).tolist() == [[1, 0], [0, 0]]
