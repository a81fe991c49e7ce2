"""What a client sends for off-policy estimates: sums, sums of squares and counts over its rows, and the same in
bootstrap draws of its owners. Outcomes, weights and propensities stay where they are.

The bootstrap is a cluster bootstrap over owners, stratified by client: a client draws its own owners with replacement,
which needs no other client, and the server adds up draw r of all clients. An estimator computes numerator and
denominator anew in every draw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.steps import Sums
from fedloom.federation.randomness import name_key

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DRAWS, SEED = 1000, 0
BINS_PER_DOUBLING = 4
LOWEST, HIGHEST = -10, 40
"""Weights are counted in bins between powers of two; the outermost ones take everything beyond."""


@dataclass(frozen=True)
class Upload:
    """Sums of one client, or of several added up.

    totals and squares: name -> sum, and sum of squares, of a term over rows (plus ``matches``, ``clipped`` and
    ``outcome``, the number of rows that follow the policy, of those that a bound clipped, and the sum of outcomes of
    the former). drawn: name -> the terms' sums in R bootstrap draws [R, ...]. bins: how many matching rows have a
    weight in each bin of ``bin_edges``.
    """

    totals: Sums
    squares: Sums
    drawn: Sums
    bins: Ints


def bin_edges() -> Floats:
    """Return the upper edges of the bins that weights are counted in."""
    return 2.0 ** (np.arange(LOWEST * BINS_PER_DOUBLING, HIGHEST * BINS_PER_DOUBLING + 1) / BINS_PER_DOUBLING)


def upload(terms: Sums, outcome_R: Floats, clipped_R: Bools, owner_R: Ints, client: str) -> Upload:
    """Return what ``client`` sends for its R rows.

    ``terms`` come from ``step_terms`` or ``sequence_terms``; ``outcome_R`` is what was observed, ``clipped_R`` where a
    bound clipped a weight. A client draws the same owners for every policy and estimator.
    """
    weight_R = terms["w"]
    matched_R = weight_R > 0
    counted = {"matches": matched_R, "clipped": matched_R & clipped_R, "outcome": np.where(matched_R, outcome_R, 0.0)}
    all_terms = terms | {name: values.astype(np.float64) for name, values in counted.items()}
    copies_RG = owner_draws(len(np.unique(owner_R)), client).astype(np.float64)
    bins = np.searchsorted(bin_edges()[:-1], weight_R[matched_R] * (1 - 1e-12))
    return Upload(
        {name: values.sum(axis=0) for name, values in all_terms.items()},
        {name: np.square(values).sum(axis=0) for name, values in all_terms.items()},
        {name: copies_RG @ cluster_sums(values, owner_R) for name, values in terms.items()},
        np.bincount(bins, minlength=len(bin_edges())).astype(np.int64),
    )


@lru_cache(maxsize=32)
def owner_draws(owners: int, client: str) -> NDArray[np.uint16]:
    """Return how often each of a client's ``owners`` owners is in each draw: [DRAWS, owners]."""
    random = np.random.default_rng([SEED, name_key(client) % 2**64])
    taken_RG = random.integers(0, max(owners, 1), (DRAWS, owners)) + max(owners, 1) * np.arange(DRAWS)[:, None]
    counts = np.bincount(taken_RG.ravel(), minlength=DRAWS * owners)
    return counts.reshape(DRAWS, owners).astype(np.uint16)


def cluster_sums(values_R: Floats, owner_R: Ints) -> Floats:
    """Return sums of values [R, ...] by owner (sorted): [owners, ...]."""
    owners, place_R = np.unique(owner_R, return_inverse=True)
    sums = np.zeros((len(owners), *values_R.shape[1:]))
    np.add.at(sums, place_R, values_R)
    return sums


def combine(uploads: Iterable[Upload]) -> Upload:
    """Add up what clients sent. Windows must be equally wide at all clients, as the longest window sets them."""
    sent = list(uploads)

    def added(fields: list[Sums]) -> Sums:
        return {name: np.sum([field[name] for field in fields], axis=0) for name in fields[0]}

    return Upload(
        added([each.totals for each in sent]),
        added([each.squares for each in sent]),
        added([each.drawn for each in sent]),
        np.sum([each.bins for each in sent], axis=0, dtype=np.int64),
    )
