"""Effects and values against the truth: Jensen, the rows that need no model, and what few draws leave unsure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedloom.evaluation.causal.effects import (
    Naive,
    effect_errors,
    jackknife,
    naive,
    step_effect_rows,
    window_rows,
)
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS

SPEC = {"dataset": "made", "method": "m", "variant": "base", "seed": 0}
LOG = Naive(0.8, 0.7, 0.75)
DRAWS, UNITS = 8, 200


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of a model [M, 4, n] and the truth [4, n]."""
    random = np.random.default_rng(seed)
    truth = np.array([0.88, 0.70, 0.78, 0.80])[:, None] + random.normal(0, 0.05, (4, UNITS))
    return truth + 0.02 + random.normal(0, 0.1, (DRAWS, 4, UNITS)), truth


def table(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return rows as the table of metrics has them, by metric and condition."""
    return METRICS.validate(as_metrics(rows, SPEC, "selected")).set_index(["metric", "condition"])


units = st.integers(1, 20).flatmap(
    lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(-1, 1)) for _ in range(2)])
)


@given(units)
def test_the_root_of_pehe_is_never_below_the_error_of_the_mean_effect(both: tuple[np.ndarray, np.ndarray]) -> None:
    errors = effect_errors(*both)
    assert errors.pehe_root >= errors.ate_error - 1e-9
    assert errors.pehe_root**2 == pytest.approx(errors.pehe_mse)


def test_a_constant_effect_errs_by_the_spread_of_the_true_one_and_no_effect_by_its_size() -> None:
    draws, truth = world()
    effect = truth[1] - truth[0]
    found = table(window_rows(draws, truth, LOG, 25))["value"]
    assert found["pehe_root", "prediction=constant_effect,scope=window"] == pytest.approx(effect.std(), rel=1e-12)
    assert found["ate_error", "prediction=constant_effect,scope=window"] == pytest.approx(0, abs=1e-15)
    none = found["pehe_root", "prediction=zero_effect,scope=window"]
    assert none == pytest.approx(np.sqrt(np.mean(effect**2)), rel=1e-12)
    assert found["ate_error", "prediction=naive,scope=window"] == pytest.approx(abs(effect.mean() + 0.1), rel=1e-12)


def test_every_row_of_effects_holds_jensen() -> None:
    draws, truth = world()
    found = table(window_rows(draws, truth, LOG, 25, oracle_MPU=truth + draws - draws.mean(axis=0)))["value"]
    assert (found["pehe_root"] >= found["ate_error"] - 1e-12).all()


def test_value_errors_are_those_of_means_over_units_by_policy_and_on_average() -> None:
    draws, truth = world()
    found = table(window_rows(draws, truth, LOG, 25))["value"]
    errors = np.abs(draws.mean(axis=(0, 2)) - truth.mean(axis=1))
    assert found["value_error", "policy=always,scope=window"] == pytest.approx(errors[1])
    assert found["value_error", "policy=mean,scope=window"] == pytest.approx(errors.mean())
    early = 0.8 + 13 / 25 * (0.7 - 0.8)
    assert found["value", "policy=early_on,prediction=naive,scope=window"] == pytest.approx(early)
    assert found["value", "policy=never,prediction=zero_effect,scope=window"] == 0.75


def test_the_true_mechanism_errs_by_its_draws_alone() -> None:
    _, truth = world()
    random = np.random.default_rng(4)
    found = {}
    for m in (4, 400):
        oracle = truth + random.normal(0, 0.2, (m, 4, UNITS))
        rows = table(window_rows(oracle, truth, LOG, 25, oracle_MPU=oracle))["value"]
        found[m] = rows["pehe_root", "prediction=oracle,scope=window"]
    assert found[400] == pytest.approx(found[4] / 10, rel=0.15)


def test_the_true_mechanism_as_a_method_is_the_floor() -> None:
    _, truth = world()
    oracle = truth + np.random.default_rng(5).normal(0, 0.2, (DRAWS, 4, UNITS))
    found = table(window_rows(oracle, truth, LOG, 25, oracle_MPU=oracle))["value"]
    for metric in ("pehe_mse", "pehe_root", "ate_error"):
        assert found[metric, "scope=window"] == found[metric, "prediction=oracle,scope=window"]
    mean = "policy=mean,{}scope=window"
    assert found["value_error", mean.format("")] == found["value_error", mean.format("prediction=oracle,")]


def test_step_effects_leave_padding_out() -> None:
    random = np.random.default_rng(1)
    estimate, truth = random.random((2, 30, 5, 2))
    valid = random.random((30, 5)) < 0.5
    estimate[~valid] = np.nan
    found = table(step_effect_rows(estimate, truth, valid, LOG))
    expected = np.mean(((estimate - truth)[..., 1] - (estimate - truth)[..., 0])[valid] ** 2)
    assert found.loc[("pehe_mse", "scope=step"), "value"] == pytest.approx(expected)
    assert found.loc[("pehe_mse", "scope=step"), "n"] == valid.sum()


def test_an_anchor_that_was_never_taken_has_no_naive_contrast() -> None:
    log = naive(np.zeros((4, 2), dtype=np.int64), np.ones((4, 2)), np.ones((4, 2), dtype=bool))
    draws, truth = world()
    found = table(window_rows(draws, truth, log, 25))
    assert found.loc[("pehe_root", "prediction=naive,scope=window"), "reason"] == "no_match"
    assert found.loc[("value", "policy=never,prediction=naive,scope=window"), "reason"] is not None


def test_the_standard_error_of_a_mean_of_draws_is_the_textbook_one() -> None:
    draws = np.random.default_rng(2).normal(0, 1, (16, 1))
    found = jackknife(draws, lambda mean: {"mean": float(mean[0])})
    assert found["mean"] == pytest.approx(draws.std(ddof=1) / 4, rel=1e-9)


def test_one_draw_says_nothing_of_its_own_error() -> None:
    draws, truth = world()
    found = table(window_rows(draws[:1], truth, LOG, 25))
    assert found.loc[("value_se", "policy=never,scope=window"), "reason"] == "one draw"
