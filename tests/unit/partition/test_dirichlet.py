"""Dealing by Dirichlet shares: exact, reproducible, and quick or plain about what cannot be had."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.errors import InputError
from fedloom.partition.dirichlet import counts, deal, deciles, feasible_shares, shares


@given(st.integers(0, 500), st.integers(1, 30), st.integers(0, 5))
def test_largest_remainder_deals_everything_and_is_less_than_one_off(total: int, clients: int, seed: int) -> None:
    share = np.random.default_rng(seed).dirichlet(np.ones(clients))
    found = counts(total, share)
    assert found.sum() == total
    assert (np.abs(found - total * share) < 1).all()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(1, 9), st.floats(0.05, 50))
def test_every_owner_gets_one_client_and_labels_their_counts(label: list[int], clients: int, alpha: float) -> None:
    values = np.asarray(label)
    share = shares(5, clients, alpha, seed=0, attempt=0)
    client = deal(values, share)
    assert ((client >= 0) & (client < clients)).all()
    for value in range(5):
        held = np.bincount(client[values == value], minlength=clients)
        np.testing.assert_array_equal(held, counts(int((values == value).sum()), share[value]))


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=10, max_size=200))
def test_tenths_are_even_and_rise_with_the_mean(means: list[float]) -> None:
    mean = np.asarray(means)
    tenth = deciles(mean, np.arange(len(mean)).astype(np.uint64))
    assert np.ptp(np.bincount(tenth, minlength=10)) <= 1
    assert all(mean[tenth == low].max() <= mean[tenth == low + 1].min() for low in range(9))


def test_a_draw_depends_on_seed_attempt_and_label_alone() -> None:
    one = shares(4, 6, 0.5, seed=1, attempt=2)
    np.testing.assert_array_equal(one, shares(9, 6, 0.5, seed=1, attempt=2)[:4])
    np.testing.assert_allclose(one.sum(axis=1), 1)
    for other in (shares(4, 6, 0.5, seed=2, attempt=2), shares(4, 6, 0.5, seed=1, attempt=3), one[::-1]):
        assert not np.allclose(one, other)


def test_a_small_alpha_gives_clients_of_few_labels_and_a_large_one_even_clients() -> None:
    spread = {alpha: np.std([shares(10, 10, alpha, 0, k) for k in range(50)]) for alpha in (0.1, 1.0, 10.0)}
    # Variance of one share of a symmetric Dirichlet distribution of n parts: (n - 1) / (n^2 (n alpha + 1)).
    for alpha, found in spread.items():
        assert found == pytest.approx(np.sqrt(9 / (100 * (10 * alpha + 1))), rel=0.1)


def test_a_client_below_the_least_share_calls_for_the_next_draw() -> None:
    label, size = np.repeat(np.arange(10), 20), np.ones(200, dtype=np.int64)
    share, attempt = feasible_shares(label, size, 10, 0.1, 0.4, seed=0)
    held = np.bincount(deal(label, share), minlength=10)
    assert held.min() >= 8
    assert attempt > 0
    for before in range(attempt):
        assert np.bincount(deal(label, shares(10, 10, 0.1, 0, before)), minlength=10).min() < 8


def test_a_thousand_clients_at_a_small_alpha_end_within_a_second_with_the_feasible_minimum() -> None:
    label, size = np.arange(14_000) % 10, np.ones(14_000, dtype=np.int64)
    begun = time.process_time()
    with pytest.raises(
        InputError, match=r"1000 clients gets at least 1 .*found 0.05.*the feasible minimum is about 0.4"
    ):
        feasible_shares(label, size, 1000, 0.05, 0.01, seed=0)
    assert time.process_time() - begun < 1
    share, _ = feasible_shares(label, size, 1000, 0.8, 0.01, seed=0)
    assert np.bincount(deal(label, share), minlength=1000).min() >= 1


def test_more_clients_than_owners_are_refused() -> None:
    with pytest.raises(InputError, match="clients: expected at most one a training owner"):
        feasible_shares(np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64), 4, 10.0, 0.01, 0)
