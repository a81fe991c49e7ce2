"""Estimated propensities come near the true ones, from the client's own past alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

from fedloom.evaluation.causal.propensity import (
    History,
    estimate_propensities,
    feature_names,
    features,
    of_chosen,
)


def site(seed: int, n: int = 1200, longest: int = 6, clients: int = 2) -> tuple[History, np.ndarray]:
    """Return sequences whose actions hang on x, a and the site, and the true probabilities [n, L, 3]."""
    random = np.random.default_rng(seed)
    x, a = random.normal(size=(n, 2)), random.normal(size=(n, longest, 1))
    client = random.integers(0, clients, n)
    slope = np.where(client == 0, 1.0, -1.0)[:, None]
    logits = np.stack([slope * x[:, :1] + a[..., 0], 0.5 - a[..., 0], np.zeros((n, longest))], axis=2)
    truth = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    chosen = (random.random((n, longest))[..., None] > truth.cumsum(2)).sum(2).clip(max=2)
    outcome = random.integers(0, 2, (n, longest)).astype(np.float64)
    valid = np.arange(longest) < random.integers(1, longest + 1, n)[:, None]
    return History(x, a, chosen, outcome, valid, client, np.arange(n)), truth


def test_estimates_come_near_the_truth_where_the_truth_is_logistic() -> None:
    train, _ = site(0, 3000)
    validation, _ = site(1, 500)
    asked, truth = site(2)
    found = estimate_propensities(train, validation, asked, 2)
    assert found.sum(2) == pytest.approx(np.ones(found.shape[:2]))
    assert np.abs(found - truth)[asked.valid_NL].mean() < 0.03
    chosen = asked.chosen_NL[asked.valid_NL]
    gap = log_loss(chosen, found[asked.valid_NL]) - log_loss(chosen, truth[asked.valid_NL])
    assert gap < 0.01


def test_a_site_is_described_by_its_own_steps_alone() -> None:
    train, _ = site(0)
    validation, _ = site(1)
    asked, _ = site(2)
    other = replace(train, chosen_NL=np.where(train.client_N[:, None] == 1, 0, train.chosen_NL))
    own = asked.client_N == 0
    one, two = (estimate_propensities(each, validation, asked, 2) for each in (train, other))
    assert np.array_equal(one[own], two[own])
    assert not np.allclose(one[~own], two[~own])


def test_features_know_nothing_of_the_action_its_outcome_or_what_follows() -> None:
    history, _ = site(3, 20)
    step = 3
    later = np.arange(6) >= step
    changed = replace(
        history,
        chosen_NL=np.where(later, 2 - history.chosen_NL, history.chosen_NL),
        outcome_NL=np.where(later, 1 - history.outcome_NL, history.outcome_NL),
        a_NLA=np.where((np.arange(6) > step)[:, None], 9.0, history.a_NLA),
    )
    one, two = features(history), features(changed)
    assert np.array_equal(one[:, : step + 1], two[:, : step + 1])
    assert one.shape[2] == len(feature_names(history))


@pytest.mark.parametrize("groups", [[0], [0, 2], [1, 2]])
def test_a_client_that_never_took_an_anchor_gives_it_a_small_probability(groups: list[int]) -> None:
    train, _ = site(6)
    train = replace(train, chosen_NL=np.random.default_rng(0).choice(groups, train.chosen_NL.shape))
    asked, _ = site(7)
    found = estimate_propensities(train, train, asked, 2)
    missing = [group for group in range(3) if group not in groups]
    assert (found[..., missing] < 0.01).all()
    assert found[..., groups].sum(2).min() > 0.98


def test_missing_features_and_tiny_clients_do_no_harm() -> None:
    train, _ = site(8)
    train.x_NX[::3, 0] = np.nan
    train.client_N[:3] = 2
    asked, _ = site(9)
    asked.client_N[:5] = 2
    found = estimate_propensities(train, train, asked, 3)
    assert np.isfinite(found).all()
    assert np.ptp(found[:5].reshape(-1, 3), axis=0) == pytest.approx(np.zeros(3))


def test_the_probability_of_what_was_chosen() -> None:
    probabilities = np.array([[[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]])
    assert of_chosen(probabilities, np.array([[2, 0]])).tolist() == [[0.7, 0.5]]
