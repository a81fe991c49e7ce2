"""A table says whether runs had converged: what the last quarter of the rounds still brought."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from fedloom.report.convergence import converged, late_gain


def scores(*values: float) -> pd.Series:
    """Validation errors of rounds 0, 1, ..."""
    return pd.Series(values)


def test_the_gain_is_what_the_best_error_lost_in_the_last_quarter() -> None:
    assert late_gain(scores(9, 5, 6, 4, 8, 4.5, 3, 7)) == pytest.approx(0.25)


def test_a_worse_last_quarter_gains_nothing() -> None:
    assert late_gain(scores(5, 4, 3, 6)) == 0


def test_rounds_without_validation_count_as_rounds() -> None:
    every_third = pd.Series([8.0, 4.0, 2.0], index=[0, 3, 6])
    assert late_gain(every_third) == pytest.approx(0.5)


def test_one_look_tells_nothing() -> None:
    assert math.isnan(late_gain(scores(3)))


def test_a_cell_says_yes_no_or_how_many_of_the_seeds() -> None:
    rows = [("a", 0.0), ("a", 0.009), ("b", 0.02), ("c", 0.5), ("c", 0.001)]
    gains = pd.DataFrame([{"method": m, "variant": "base", "gain": gain} for m, gain in rows])
    assert {run[0]: cell.text for run, cell in converged(gains).items()} == {"a": "yes", "b": "no", "c": "1 of 2"}
