"""Graphs between clients against brute force and an independent distance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics.pairwise import haversine_distances

from fedloom.data.places import EARTH_KM, kilometres
from fedloom.partition.graphs import exchange_graph, full, listed, nearest, within


@pytest.fixture
def places() -> NDArray[np.float64]:
    rng = np.random.default_rng(3)
    return np.stack([rng.uniform(-80, 80, 12), rng.uniform(-180, 180, 12)], 1)


def everyone(clients: int) -> NDArray[np.bool_]:
    return np.ones(clients, dtype=bool)


def test_distances_are_great_circles(places: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(kilometres(places), EARTH_KM * haversine_distances(np.radians(places)), atol=1e-6)


def test_distances_run_across_the_antimeridian() -> None:
    assert kilometres(np.array([[0.0, 179.9], [0.0, -179.9]]))[0, 1] < 23


@pytest.mark.parametrize("k", [1, 4, 50])
def test_each_receiver_hears_its_k_nearest(places: NDArray[np.float64], k: int) -> None:
    distance = kilometres(places)
    links = nearest(distance, k)
    for receiver in range(len(places)):
        others = [s for s in range(len(places)) if s != receiver]
        assert set(np.flatnonzero(links[:, receiver])) == set(sorted(others, key=lambda s: distance[s, receiver])[:k])


def test_nearness_is_not_mutual_at_the_border() -> None:
    links = nearest(kilometres(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.1]])), 1)
    assert links[1, 0]
    assert not links[0, 1]


def test_a_client_of_unknown_place_is_nobodys_neighbour(places: NDArray[np.float64]) -> None:
    places[4] = np.nan
    links = nearest(kilometres(places), 3)
    assert not links[4].any()
    assert not within(kilometres(places), 1e9)[4].any()


def test_within_a_limit_links_are_mutual_and_grow(places: NDArray[np.float64]) -> None:
    near, far = (within(kilometres(places), limit) for limit in (3000.0, 9000.0))
    assert (near == near.T).all()
    assert (near <= far).all()
    assert near.sum() < far.sum() < full(12).sum()


def test_active_clients_hear_themselves_and_passive_ones_nobody() -> None:
    active, unplaced = np.array([True, True, False, False]), np.array([False, False, False, True])
    edges = exchange_graph(full(4), active, unplaced, np.arange(4))
    pairs = set(map(tuple, edges.T.tolist()))
    assert pairs == {(s, d) for s in range(4) for d in (0, 1)}


def test_a_passive_client_without_a_place_speaks_to_all() -> None:
    nobody = np.zeros((3, 3), dtype=bool)
    passive = np.array([False, False, True])
    edges = exchange_graph(nobody, ~passive, passive, np.arange(3))
    assert set(map(tuple, edges.T.tolist())) == {(0, 0), (1, 1), (2, 0), (2, 1)}


def test_listed_links_are_directed() -> None:
    edges = exchange_graph(listed(np.array([[0], [2]]), 3), everyone(3), ~everyone(3), np.arange(3))
    assert set(map(tuple, edges.T.tolist())) == {(0, 0), (1, 1), (2, 2), (0, 2)}


def test_renumbered_clients_have_the_same_edges_in_the_same_order(places: NDArray[np.float64]) -> None:
    keys = np.random.default_rng(0).permutation(12) * 7 - 40
    new = np.random.default_rng(1).permutation(12)
    one = exchange_graph(nearest(kilometres(places), 3), everyone(12), ~everyone(12), keys)
    other = exchange_graph(nearest(kilometres(places[new]), 3), everyone(12), ~everyone(12), keys[new])
    np.testing.assert_array_equal(keys[one], keys[new][other])
