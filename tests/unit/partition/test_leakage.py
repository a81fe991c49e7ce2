"""What evaluation holds out is recognised by content, under any scale, shift and mild rounding, and stops the run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.series.table import SCHEMA, SeriesSet, describe
from fedloom.errors import InputError
from fedloom.partition.leakage import check_leakage, signs_of
from fedloom.partition.series import SeriesPartitionSettings, make_series_partition


def series(name: str, values: np.ndarray, validation: int = -1, seen: bool = False) -> SeriesSet:
    row = {"client": name, "id": "0", "channel": "v", "domain": "d", "seconds": 1.0, "start": pd.NaT, "season": 0}
    row |= {"validation": validation, "test": validation, "tasks": [], "label": None}
    table = pd.DataFrame([row | {"values": values.astype(np.float32)}])[SCHEMA.names]
    about = {"dataset": name, "part": None, "exclusions": {}, "cleaned": {}, "seen": [name] * seen, "bias": {}}
    return SeriesSet(table, about | describe(table))


def load(n: int = 3000, seed: int = 0) -> np.ndarray:
    """A daily pattern with noise that turns many times a day, as an hourly load of few consumers has."""
    draw = np.random.default_rng(seed)
    return 100 + 20 * np.sin(np.arange(n) * 2 * np.pi / 24) + draw.normal(scale=5, size=n)


@given(st.integers(0, 2800), st.integers(80, 200), st.floats(0.01, 100), st.floats(-100, 100))
@settings(max_examples=30)
def test_a_copied_run_is_found_wherever_it_lies_and_however_it_is_scaled(
    begin: int, length: int, scale: float, shift: float
) -> None:
    target = load()
    mine = load(seed=1)
    mine[300 : 300 + length] = target[begin : begin + length] * scale + shift
    with pytest.raises(InputError, match=r"mine: series mine/0/v, point \d+: expected no values of held-out targets"):
        check_leakage(series("mine", mine), series("target", target))


def test_a_rounded_copy_is_found() -> None:
    with pytest.raises(InputError, match="found those of target/0/v"):
        check_leakage(series("mine", np.round(load(), 1)), series("target", load()))


def test_other_series_with_the_same_daily_pattern_are_not_taken_for_copies() -> None:
    told = check_leakage(series("mine", load(20_000, seed=1)), series("target", load(20_000)))
    assert told["targets"] == "target"
    assert told["stretches"] > 10_000
    assert told["target_stretches"] > 500


def test_switches_and_constants_are_no_evidence() -> None:
    switch = np.tile([0.0, 1.0, 1.0], 1000)
    check_leakage(series("mine", switch), series("target", switch))
    assert len(signs_of(np.ones(500, np.float32))[0]) == 0


def test_a_seen_client_may_hold_the_training_part_and_nothing_more() -> None:
    target = series("target", load(), validation=1500)
    check_leakage(series("mine", load()[:1500], seen=True), target)
    with pytest.raises(InputError, match="expected the training part of targets at most, found those of target"):
        check_leakage(series("mine", load()[:1700], seen=True), target)
    with pytest.raises(InputError, match="expected no values of held-out targets"):
        check_leakage(series("mine", load()[:1500]), target)


def test_a_series_that_repeats_its_training_part_gives_nothing_away() -> None:
    again = np.r_[load(1000), load(1000)]
    check_leakage(series("mine", again[:1000], seen=True), series("target", again, validation=1000))


def test_missing_points_break_a_stretch() -> None:
    values = load(65).astype(np.float32)
    assert len(signs_of(values)[0]) == 1
    values[30] = np.nan
    assert len(signs_of(values)[0]) == 0
    assert len(signs_of(values[:64])[0]) == 0


def test_the_partition_is_not_made_of_leaking_data() -> None:
    asked = SeriesPartitionSettings(length=64, patch=8)
    with pytest.raises(InputError, match="expected no values of held-out targets"):
        make_series_partition(series("mine", load()), asked, series("target", load()))
    made = make_series_partition(series("mine", load(seed=1)), asked, series("target", load()))
    assert made.about["compared"]["targets"] == "target"
