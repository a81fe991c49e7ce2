"""Clients that are alike are found, whatever their order, and keep their cluster's number."""

from __future__ import annotations

import torch

from fedloom.federation.clusters import clustered

UNKNOWN = torch.full((12,), -1)


def planted(seed: int, apart: float = 4.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Twelve points around three places, and whose place each is."""
    generator = torch.Generator().manual_seed(seed)
    group = torch.arange(12) % 3
    places = apart * torch.eye(3, 6, dtype=torch.float64)
    return places[group] + 0.5 * torch.randn(12, 6, generator=generator, dtype=torch.float64), group


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one[:, None] == one, other[:, None] == other)


def test_planted_groups_are_found() -> None:
    for seed in range(20):
        points, group = planted(seed)
        assert same(clustered(points, 3, UNKNOWN), group)


def test_the_order_does_not_matter() -> None:
    points, _ = planted(1, apart=1.0)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert same(clustered(points[order], 2, UNKNOWN), clustered(points, 2, UNKNOWN)[order])


def test_clusters_keep_their_numbers_from_one_time_to_the_next() -> None:
    points, group = planted(2)
    for names in ([0, 1, 2], [2, 0, 1]):
        before = torch.tensor(names)[group]
        before[5] = -1  # one that is new finds its own
        assert torch.equal(clustered(points, 3, before), torch.tensor(names)[group])


def test_each_of_few_clients_is_a_cluster_of_its_own() -> None:
    points, _ = planted(0)
    assert sorted(clustered(points[:2], 3, UNKNOWN[:2]).tolist()) == [0, 1]
    assert clustered(points[:1], 3, UNKNOWN[:1]).tolist() == [0]
