"""Samples of unequal clients: thinned alike for each, side by side in order, and every one met once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.federation.samples import located, side_by_side, stretches, thinned

OWNERS = st.lists(st.integers(0, 3), max_size=40).map(lambda owners: np.array(owners, dtype=np.int64))


@given(OWNERS, st.integers(1, 7), st.integers(0, 9))
def test_one_in_so_many_of_each_owners_samples_is_kept_and_it_is_the_lowest(
    owner: np.ndarray, one_in: int, seed: int
) -> None:
    key = np.random.default_rng(seed).permutation(len(owner))
    kept = thinned(key, owner, one_in)
    assert (np.diff(kept) > 0).all()
    for client in set(owner.tolist()):
        mine = np.flatnonzero(owner == client)
        wanted = -(-len(mine) // one_in)
        assert set(kept) & set(mine) == set(mine[np.argsort(key[mine])[:wanted]])


@given(OWNERS, st.integers(0, 2))
def test_each_clients_values_stand_in_their_order_and_can_be_found_by_number(owner: np.ndarray, more: int) -> None:
    clients = int(owner.max(initial=-1)) + 1 + more
    values = 10 + np.arange(len(owner))
    table, counts = side_by_side(values, owner, clients)
    assert table.shape == (clients, max(1, counts.max(initial=0)))
    if not clients:
        return
    rows = torch.arange(clients)
    numbers = torch.arange(table.shape[1] + 2).expand(clients, -1)
    entries, exists = located(torch.from_numpy(table), torch.from_numpy(counts), rows, numbers)
    for client in range(clients):
        assert entries[client][exists[client]].tolist() == values[owner == client].tolist()
    assert (entries[~exists] >= 0).all(), "padding must not count from the end"


@pytest.mark.parametrize("width", [0, 1, 3, 100])
def test_stretches_meet_every_sample_once(width: int) -> None:
    met = [numbers for _, numbers in stretches(torch.tensor([4, 0, 7]), width, torch.device("cpu"))]
    assert torch.equal(torch.cat(met, 1), torch.arange(7).expand(3, -1))
    assert all(numbers.shape[1] <= max(1, width) for numbers in met)
    assert list(stretches(torch.tensor([0, 0]), width, torch.device("cpu"))) == []
