"""The metrics of the M4 competition."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.evaluation.series.competition import is_seasonal, mase, naive2, owa, seasonal_pattern, smape

HOURS = np.arange(480)
PATTERN = 1 + 0.4 * np.sin(2 * np.pi * np.arange(24) / 24)


def test_a_perfect_forecast_has_smape_0_and_the_worst_200() -> None:
    truth = np.array([1.0, 2.0, 4.0])
    assert smape(truth, truth) == 0
    assert smape(truth, -truth) == 200
    assert smape(np.zeros(2), np.zeros(2)) == 0


def test_smape_by_hand() -> None:
    assert smape(np.array([100.0, 50.0]), np.array([110.0, 40.0])) == pytest.approx((2000 / 210 + 2000 / 90) / 2)


def test_mase_by_hand() -> None:
    past = np.array([1.0, 2.0, 4.0, 3.0, 5.0])  # season 2: |4-1|, |3-2|, |5-4|
    assert mase(past, np.array([6.0, 6.0]), np.array([5.0, 8.0]), 2) == pytest.approx(1.5 / (5 / 3))


def test_naive_2_has_owa_1() -> None:
    assert owa((13.0, 13.0), (2.0, 2.0)) == 1


def test_naive_2_of_a_seasonal_series_repeats_its_season() -> None:
    past = 50 * PATTERN[HOURS % 24]
    np.testing.assert_allclose(naive2(past, 48, 24), 50 * PATTERN[np.arange(480, 528) % 24], rtol=1e-10)


def test_naive_2_of_a_series_without_season_is_the_last_value() -> None:
    past = np.random.default_rng(0).normal(10, 1, 480)
    assert not is_seasonal(past, 24)
    np.testing.assert_allclose(naive2(past, 5, 24), past[-1])


def test_the_pattern_agrees_with_statsmodels() -> None:
    seasonal = pytest.importorskip("statsmodels.tsa.seasonal")
    past = (30 + 0.02 * HOURS) * PATTERN[HOURS % 24] + np.random.default_rng(1).normal(0, 0.5, 480)
    wanted = seasonal.seasonal_decompose(past, model="multiplicative", period=24).seasonal[:24]
    np.testing.assert_allclose(seasonal_pattern(past, 24), wanted, rtol=1e-8)


@pytest.mark.parametrize("season", [7, 24])
def test_the_pattern_of_a_pure_season_is_the_season(season: int) -> None:
    pattern = 1 + 0.3 * np.cos(2 * np.pi * np.arange(season) / season)
    found = seasonal_pattern(np.tile(pattern, 6) * 12.0, season)
    np.testing.assert_allclose(found, pattern / pattern.mean(), rtol=1e-10)
