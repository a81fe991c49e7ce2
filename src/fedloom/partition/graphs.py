"""Who hears whom: directed graphs between clients, from their places or from a draw. Matrices are [source, receiver].

numpy alone, since training builds its graph from the panel's coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Links = NDArray[np.bool_]


def nearest(distance: NDArray[np.float64], k: int) -> Links:
    """Each receiver hears its ``k`` nearest others (all, where there are fewer); not symmetric at borders.

    Sources at a distance of NaN are never among them. With random distances the partners are random.
    """
    others = np.where(np.isnan(distance), np.inf, distance)
    np.fill_diagonal(others, np.inf)
    rank = others.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return (rank < k) & np.isfinite(others)


def within(distance: NDArray[np.float64], limit: float) -> Links:
    """Each receiver hears the others that are at most ``limit`` away."""
    return (distance <= limit) & ~np.eye(len(distance), dtype=bool)


def full(clients: int) -> Links:
    """Everybody hears everybody else."""
    return ~np.eye(clients, dtype=bool)


def listed(edges: NDArray[np.int64], clients: int) -> Links:
    """The links of an edge list [2, E]."""
    links = np.zeros((clients, clients), dtype=bool)
    links[edges[0], edges[1]] = True
    return links


def exchange_graph(
    links: Links, active: NDArray[np.bool_], unplaced: NDArray[np.bool_], keys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Edges [2, E] along which codes travel, in an order of ``keys`` [C] that no renumbering of clients changes.

    Every active client hears itself. A passive client hears nobody; one that is nowhere (``unplaced``, a weather
    service) speaks to every active client.
    """
    whole = links | np.eye(len(links), dtype=bool) | (unplaced & ~active)[:, None]
    source, receiver = np.nonzero(whole & active)
    order = np.lexsort((keys[receiver], keys[source]))
    return np.stack([source[order], receiver[order]])
