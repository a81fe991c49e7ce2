"""Aligned codebooks have the least total cost."""

from __future__ import annotations

from itertools import permutations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.federation.alignment import align_rows, cosine_cost


@given(st.integers(0, 10_000), st.sampled_from([0.05, 1.0, 10.0]))
def test_alignment_costs_what_brute_force_costs(seed: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    anchor = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    rows = anchor + spread * torch.randn(4, 5, 3, generator=generator, dtype=torch.float64)
    cost, order = cosine_cost(rows, anchor), align_rows(rows, anchor)
    for client in range(4):
        assert sorted(order[client].tolist()) == list(range(5))
        found = sum(cost[client, i, j] for i, j in enumerate(order[client].tolist()))
        best = min(sum(cost[client, i, j] for i, j in enumerate(p)) for p in permutations(range(5)))
        torch.testing.assert_close(found, best)


def test_a_shuffled_codebook_is_put_back() -> None:
    anchor = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    shuffle = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    order = align_rows(anchor[shuffle][None], anchor)[0]
    assert torch.equal(anchor[shuffle][order], anchor)
