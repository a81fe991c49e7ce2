"""Short gaps are filled along a line, inside a part of the split and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.series.gaps import fill_gaps

VALUES = st.lists(st.one_of(st.just(float("nan")), st.floats(-100, 100, width=32)), min_size=1, max_size=60)


@given(VALUES)
def test_gaps_of_any_length_are_filled_as_pandas_does(values: list[float]) -> None:
    series = np.array(values, np.float32)
    expected = pd.Series(series.astype(float)).interpolate(limit_area="inside").to_numpy()
    np.testing.assert_allclose(
        fill_gaps(series, (len(series), len(series)), len(series)), expected, rtol=1e-4, atol=1e-4
    )


def test_a_gap_longer_than_a_patch_stays_missing() -> None:
    series = np.array([0, np.nan, np.nan, 3, np.nan, np.nan, np.nan, 7], np.float32)
    filled = fill_gaps(series, (8, 8), 2)
    np.testing.assert_array_equal(filled, [0, 1, 2, 3, np.nan, np.nan, np.nan, 7])
    assert np.isnan(series[1])


def test_no_part_looks_into_the_next() -> None:
    series = np.array([0, np.nan, np.nan, 3, np.nan, 5], np.float32)
    np.testing.assert_array_equal(fill_gaps(series, (2, 5), 4), [0, np.nan, np.nan, 3, np.nan, 5])
