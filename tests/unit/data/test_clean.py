"""A regular time axis: which defects are repaired and counted, and which are refused in one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.panels.clean import null_missing, regular
from fedloom.data.panels.settings import PanelSettings
from fedloom.errors import InputError

HOURLY = PanelSettings("toy", "mph", 60, reader="csv")
MELBOURNE = PanelSettings("toy", "mph", 60, reader="csv", timezone="Australia/Melbourne")


def series(*stamps: str, values: list[float] | None = None) -> pd.DataFrame:
    index = pd.DatetimeIndex(stamps, name="timestamp").as_unit("ns")
    return pd.DataFrame({"a": values or [float(i) for i in range(len(stamps))]}, index=index)


def test_a_regular_series_passes_unchanged_and_without_repairs() -> None:
    values = series("2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 02:00")
    cleaned, repairs = regular(values, HOURLY)
    pd.testing.assert_frame_equal(cleaned, values, check_freq=False)
    assert repairs == {}


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=4))
def test_order_and_exact_repetition_of_rows_do_not_matter(order: list[int], again: list[int]) -> None:
    values = series(*[f"2024-01-01 {hour:02d}:00" for hour in range(6)])
    cleaned, repairs = regular(values.iloc[[*order, *again]], HOURLY)
    pd.testing.assert_frame_equal(cleaned, values, check_freq=False)
    assert repairs.get("duplicate_stamps", 0) == len(again)
    assert ("unsorted_stamps" in repairs) == (np.diff([*order, *again]) < 0).any()


def test_two_readings_of_one_stamp_are_refused() -> None:
    with pytest.raises(InputError, match="expected each once, found 2024-01-01 01:00:00 twice with other readings"):
        regular(series("2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:00"), HOURLY)


def test_a_gap_is_filled_with_missing_readings_and_counted() -> None:
    cleaned, repairs = regular(series("2024-01-01 00:00", "2024-01-01 03:00", values=[1, 4]), HOURLY)
    assert cleaned["a"].isna().tolist() == [False, True, True, False]
    assert repairs == {"inserted_steps": 2}


def test_a_stamp_off_the_interval_is_refused() -> None:
    with pytest.raises(InputError, match="expected one every 60 minutes, found 2024-01-01 00:30:00"):
        regular(series("2024-01-01 00:00", "2024-01-01 00:30", "2024-01-01 01:00"), HOURLY)


def test_the_hour_that_the_clock_skips_is_no_gap() -> None:
    spring = series("2013-10-06 01:00", "2013-10-06 03:00")
    cleaned, repairs = regular(spring, MELBOURNE)
    assert len(cleaned) == 2
    assert repairs == {"skipped_hour_steps": 1}
    assert regular(spring, HOURLY)[1] == {"inserted_steps": 1}


def test_of_the_hour_that_the_clock_repeats_the_first_pass_is_kept() -> None:
    autumn = series("2013-04-07 01:00", "2013-04-07 02:00", "2013-04-07 02:00", "2013-04-07 03:00", values=[1, 2, 9, 3])
    cleaned, repairs = regular(autumn, MELBOURNE)
    assert cleaned["a"].tolist() == [1, 2, 3]
    assert repairs == {"repeated_hour_stamps": 1}
    with pytest.raises(InputError, match="twice with other readings"):
        regular(autumn, HOURLY)


@given(
    st.lists(st.sampled_from([0.0, -9999.0, 3.0, 1e-6, np.nan, np.inf]), min_size=1), st.sampled_from([0, -9999, None])
)
def test_a_missing_reading_is_null_and_never_a_number(readings: list[float], literal: float | None) -> None:
    raw = pd.DataFrame({"a": readings})
    cleaned = null_missing(raw, literal)["a"].to_numpy()
    missing = (
        ~np.isfinite(raw["a"]) if literal is None else ~np.isfinite(raw["a"]) | ((raw["a"] - literal).abs() < 5e-5)
    )
    assert (np.isnan(cleaned) == missing).all()
    assert (cleaned[~missing] == raw["a"][~missing].astype(np.float32)).all()
