"""Intervals over clients: they cover, they are of the number itself, and they draw the same clients for every run."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.evaluation.causal.factual import auc, prediction_rows
from fedloom.evaluation.causal.uncertainty import (
    Owned,
    attached,
    auc_draws,
    bounds,
    client_draws,
    effect_draws,
    value_draws,
    with_draws,
)
from fedloom.evaluation.rows import DRAWN, condition, row, taken

CLIENTS = 12


def owned(rng: np.random.Generator, units: int = 600) -> Owned:
    return Owned(rng.integers(0, CLIENTS, units), CLIENTS)


def test_intervals_cover_an_error_whose_size_differs_from_client_to_client() -> None:
    """Errors have a mean of their own at each client, around 0.3 over all clients that there could be."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        whose = owned(rng)
        error = rng.normal(0.3, 0.2, CLIENTS)[whose.client_U] + rng.normal(0, 0.1, len(whose.client_U))
        lo, hi = bounds(effect_draws(error, np.zeros(len(error)), whose)["ate_error"], abs(error.mean()))
        covered += lo <= 0.3 <= hi
    assert 172 <= covered <= 198  # percentile intervals of a dozen clients are a little too narrow


def test_a_draw_of_clients_is_the_number_of_all_their_units() -> None:
    rng = np.random.default_rng(1)
    whose = owned(rng, 90)
    estimate, truth = rng.normal(size=(2, 90))
    drawn = effect_draws(estimate, truth, whose)
    copies = client_draws(CLIENTS)[7].astype(int)
    rows = np.concatenate([np.flatnonzero(whose.client_U == c) for c in range(CLIENTS) for _ in range(copies[c])])
    error = (estimate - truth)[rows]
    assert drawn["pehe_mse"][7] == pytest.approx(np.mean(error**2))
    assert drawn["pehe_root"][7] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert drawn["ate_error"][7] == pytest.approx(abs(error.mean()))


def test_a_draw_of_the_auc_is_the_auc_of_the_drawn_rows_ties_and_all() -> None:
    rng = np.random.default_rng(2)
    whose = owned(rng, 150)
    prediction, outcome = rng.integers(0, 8, 150) / 8, rng.integers(0, 2, 150).astype(float)
    drawn = auc_draws(prediction, outcome, whose)
    for draw in (0, 5, 99):
        copies = client_draws(CLIENTS)[draw].astype(int)
        rows = np.concatenate([np.flatnonzero(whose.client_U == c) for c in range(CLIENTS) for _ in range(copies[c])])
        assert drawn[draw] == pytest.approx(auc(prediction[rows], outcome[rows]))


def test_values_errors_are_meaned_over_policies_within_a_draw() -> None:
    rng = np.random.default_rng(3)
    value, truth = rng.uniform(size=(2, 4, 60))
    drawn = value_draws(value, truth, owned(rng, 60))
    each = [drawn["value_error", policy] for policy in ("never", "always", "early_on", "late_on")]
    np.testing.assert_allclose(drawn["value_error", "mean"], np.mean(each, axis=0))
    assert ("value", "mean") not in drawn


def test_an_interval_holds_its_number() -> None:
    drawn = np.linspace(0.2, 0.4, 1000)
    assert bounds(drawn, 0.1)[0] == 0.1
    assert bounds(drawn, 0.3) == pytest.approx((0.205, 0.395))


def test_what_is_null_has_no_interval() -> None:
    null = row("auc", np.nan, 0, reason="single_class")
    assert with_draws(null, np.ones(1000)) == null
    known = row("auc", 0.5, 3)
    assert with_draws(known, np.full(1000, np.nan)) == known


def test_draws_find_their_row_by_metric_and_condition_and_leave_it_under_a_key_of_their_own() -> None:
    rows = [row("ate_error", 0.1, 5, condition(scope=s)) for s in ("step", "window")]
    rows = attached(rows, {("ate_error", "scope=step"): np.linspace(0, 1, 1000)})
    assert [DRAWN in each for each in rows] == [True, False]
    found = taken(rows)
    assert list(found) == ["draws/pooled/ate_error/all/scope=step"]
    assert all(DRAWN not in each for each in rows)
    assert rows[0]["hi"] == pytest.approx(0.975, abs=1e-3)


def test_pooled_and_mean_predictions_have_intervals_and_single_clients_none() -> None:
    rng = np.random.default_rng(4)
    client = rng.integers(0, 3, 300)
    rows = prediction_rows(rng.random(300), rng.integers(0, 2, 300).astype(float), client, ["a", "b", "c"])
    for each in rows:
        has = each["unit"] in ("pooled", "mean")
        assert (DRAWN in each) == has
        assert np.isnan(each["lo"]) != has
        if has:
            assert each["lo"] <= each["value"] <= each["hi"]
