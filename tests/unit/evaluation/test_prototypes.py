"""Numbers of prototypes: what they are of follows from weights, readings and codebooks alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedloom.evaluation.forecast.prototypes import PERIOD, contrasting, cosines, prototype_rows
from fedloom.evaluation.forecast.regimes import levels

RNG = np.random.default_rng(0)
HISTORY, PERIODS = 12, 4


def test_periods_are_those_with_the_least_and_the_largest_mean() -> None:
    values = pd.Series([5.0, 5, 1, 1, 1, 5, 5, 9, 9, 8, 5])
    assert contrasting(values, 3) == (2, 7)


def test_a_period_is_known_for_the_most_part() -> None:
    values = pd.Series([np.nan, np.nan, np.nan, -50.0, 1, 1, 1, 1, 3, 3, np.nan, 3, 3, 2, 2])
    least, largest = contrasting(values, 4) or (-1, -1)
    assert least in (2, 3)
    assert values.iloc[largest : largest + 4].notna().sum() >= 3
    assert contrasting(pd.Series([1.0, 2.0]), 3) is None
    assert contrasting(pd.Series([np.nan] * 9), 3) is None


def test_cosines_do_not_depend_on_lengths() -> None:
    rows = RNG.normal(size=(5, 8)).astype(np.float32)
    found = cosines(rows * np.arange(1, 6, dtype=np.float32)[:, None])
    assert np.allclose(found, cosines(rows), atol=1e-6)
    assert np.allclose(np.diag(found), 1, atol=1e-6)


def heard(weights_WI: np.ndarray, codebook_ID: np.ndarray) -> dict[str, Any]:
    """What is kept of two clients, the second of whom is watched."""
    usage = np.stack([np.full(weights_WI.shape[1], 1 / weights_WI.shape[1]), weights_WI.mean(0)])
    watched = np.array([1], dtype=np.int32)
    return {"usage": usage, "watched": watched, "weights": weights_WI[None], "prototypes": codebook_ID[None]}


def numbers(weights_WI: np.ndarray, readings_S: np.ndarray, codebook_ID: np.ndarray) -> pd.Series:
    """The rows of a watched client whose windows end at all steps from the first whole one on, and the means."""
    ends = np.arange(HISTORY - 1, HISTORY - 1 + len(weights_WI))
    both = np.stack([readings_S, readings_S]), np.stack([ends, ends])
    rows = pd.DataFrame(prototype_rows(heard(weights_WI, codebook_ID), ["a", "b"], *both))
    return rows.set_index(["unit", "metric", "condition"])["value"]


def test_a_client_that_always_uses_one_prototype_has_a_largest_use_of_1() -> None:
    weights = np.tile([0.0, 1.0], (PERIODS * PERIOD, 1))
    found = numbers(weights, RNG.normal(size=300), np.eye(2))
    assert found["b", "largest_use", ""] == pytest.approx(1)
    assert found["mean", "largest_use", ""] == pytest.approx(0.75)
    assert found["b", "use_distance", "periods=contrasting"] == found["b", "use_distance", "periods=any"] == 0


def test_periods_lie_2_apart_where_high_and_low_readings_have_prototypes_of_their_own() -> None:
    high = np.repeat([0, 1, 0, 1], PERIOD)
    readings = np.concatenate([np.zeros(HISTORY - 1), high])
    found = numbers(np.eye(2)[high], readings, np.eye(2))
    assert found["b", "use_distance", "periods=contrasting"] == pytest.approx(2)
    assert found["b", "use_distance", "periods=any"] == pytest.approx(2 * 4 / 6)


def test_prototypes_that_follow_the_clock_do_not_set_periods_apart() -> None:
    ends = np.arange(PERIODS * PERIOD)
    readings = np.concatenate([np.zeros(HISTORY - 1), RNG.normal(size=len(ends)) + ends // PERIOD])
    found = numbers(np.eye(2)[ends % 2], readings, np.eye(2))
    assert found["b", "use_distance", "periods=contrasting"] < 0.05


def test_orthogonal_prototypes_are_unlike_and_copies_are_alike() -> None:
    weights, readings = RNG.dirichlet(np.ones(3), PERIODS * PERIOD), RNG.normal(size=300)
    apart = numbers(weights, readings, np.eye(3))
    assert apart["mean", "prototype_cosine", "pairs=mean"] == pytest.approx(0)
    twins = numbers(weights, readings, np.eye(3)[[0, 0, 1]] * 5)
    assert twins["mean", "prototype_cosine", "pairs=mean"] == pytest.approx(1 / 3)
    assert twins["mean", "prototype_cosine", "pairs=largest"] == pytest.approx(1)


def test_what_cannot_be_known_is_null_with_a_reason() -> None:
    short = heard(RNG.dirichlet(np.ones(1), 10), np.ones((1, 4)))
    rows = prototype_rows(short, ["a", "b"], np.zeros((2, 30)), np.tile(np.arange(11, 21), (2, 1)))
    null = {(row["metric"], row["reason"]) for row in rows if np.isnan(row["value"])}
    assert null == {
        ("prototype_cosine", "there is one prototype"),
        ("use_distance", "too few steps of the test part are known"),
    }


def test_levels_are_equally_large_and_keep_the_order_of_readings() -> None:
    readings = RNG.normal(size=(2, 40)).astype(np.float32)
    present = np.ones((2, 40), dtype=bool)
    present[1, :20] = False
    found = levels(readings, present, 4)
    assert np.bincount(found[0]).tolist() == [10] * 4
    assert (np.diff(found[0][readings[0].argsort()]) >= 0).all()
    assert (found[1, :20] == -1).all()
    assert np.bincount(found[1, 20:]).tolist() == [5] * 4
