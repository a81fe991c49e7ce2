"""Draws depend on seed, site, round, step and client, and on nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedloom.federation.randomness import bits, client_keys, derive, draw_clients, normal, orders, uniform

KEYS = client_keys([f"sensor {i}" for i in range(50)])


def test_splitmix64_gives_its_published_first_words() -> None:
    words = bits(torch.tensor([1234567]), 3)[0].tolist()
    assert [w % 2**64 for w in words] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_clients_draw_does_not_depend_on_who_else_is_drawn_for() -> None:
    together = normal(derive(KEYS, 1, "site", 2), (7,))
    alone = normal(derive(KEYS[13:14], 1, "site", 2), (7,))
    assert torch.equal(together[13], alone[0])


def test_every_counter_matters() -> None:
    base = derive(KEYS, 0, "order", 1)
    for other in (derive(KEYS, 1, "order", 1), derive(KEYS, 0, "noise", 1), derive(KEYS, 0, "order", 2)):
        assert (base != other).all()


def test_uniform_and_normal_draws_pass_kolmogorov_smirnov() -> None:
    u = uniform(derive(KEYS, 0, "ks"), (400,), torch.float64).flatten().numpy()
    z = normal(derive(KEYS, 0, "ks"), (400,), torch.float64).flatten().numpy()
    assert stats.kstest(u, "uniform").pvalue > 0.001
    assert stats.kstest(z, "norm").pvalue > 0.001


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 5))
def test_an_order_is_a_permutation_of_the_clients_own_samples(sizes: list[int], seed: int) -> None:
    longest = max(sizes)
    order = orders(derive(KEYS[: len(sizes)], seed), torch.tensor(sizes), longest, longest)
    for row, size in zip(order.tolist(), sizes, strict=True):
        assert sorted(row[:size]) == list(range(size))
        assert row[size:] == [longest] * (longest - size)


@pytest.mark.parametrize("first", [3, 400])
def test_the_first_entries_of_an_order_do_not_depend_on_how_many_are_taken(first: int) -> None:
    sizes = torch.tensor([500, 490, 2, 0])
    whole = orders(KEYS[:4], sizes, 500, 500)
    assert torch.equal(orders(KEYS[:4], sizes, 500, first), whole[:, :first])


def test_the_drawn_clients_are_the_same_whatever_their_order() -> None:
    shuffled = torch.randperm(len(KEYS), generator=torch.Generator().manual_seed(0))
    one = set(KEYS[draw_clients(KEYS, 0.3, 5, 2)].tolist())
    other = set(KEYS[shuffled][draw_clients(KEYS[shuffled], 0.3, 5, 2)].tolist())
    assert one == other
    assert len(one) == 15
