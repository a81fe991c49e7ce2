"""Dealing labelled owners to clients: shares of every label are drawn from a Dirichlet distribution.

The smaller ``alpha``, the more a client holds of few labels (Hsu, Qi, Brown 2019). A draw depends on the seed, the
number of the attempt and the label, on nothing else.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedloom.errors import InputError

ATTEMPTS = 100
DECILES = 10
_SEARCH_ATTEMPTS = 10
_LARGEST_ALPHA = 1e4


def shares(labels: int, clients: int, alpha: float, seed: int, attempt: int) -> NDArray[np.float64]:
    """Shares [labels, clients] of one attempt; every row sums to 1."""
    key = np.frombuffer(hashlib.blake2b(f"dirichlet/{seed}".encode(), digest_size=16).digest(), dtype="<u8")
    rows = []
    for label in range(labels):
        draw = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, attempt, label]))
        rows.append(draw.dirichlet(np.full(clients, alpha)))
    return np.asarray(rows)


def counts(total: int, share: NDArray[np.float64]) -> NDArray[np.int64]:
    """``total`` things dealt by ``share`` [clients]: largest remainder, the earlier client where they tie."""
    exact = total * share
    whole = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    whole[np.argsort(-(exact - whole), kind="stable")[:left]] += 1
    return whole


def deal(label: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[np.int64]:
    """The client of every owner. ``label`` [owners] (0..labels-1), in the order in which owners are dealt."""
    client = np.empty(len(label), dtype=np.int64)
    for value in range(len(share)):
        members = np.flatnonzero(label == value)
        client[members] = np.repeat(np.arange(share.shape[1]), counts(len(members), share[value]))
    return client


def deciles(mean: NDArray[np.float64], tie: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Which tenth (0..9) of the owners each one is in by its ``mean`` outcome; equal means are ordered by ``tie``."""
    rank = np.empty(len(mean), dtype=np.int64)
    rank[np.lexsort((tie, mean))] = np.arange(len(mean))
    return rank * DECILES // max(len(mean), 1)


def feasible_shares(
    label: NDArray[np.int64], size: NDArray[np.int64], clients: int, alpha: float, least_share: float, seed: int
) -> tuple[NDArray[np.float64], int]:
    """The first attempt at shares by which no client gets too little, and its number.

    ``label`` and ``size`` [owners]: what training owners are dealt by, and how many sequences each has. A client gets
    too little with none of them, or with less than ``least_share`` of the mean. Raises InputError that says from which
    ``alpha`` on a deal was found.
    """
    if clients > len(label):
        raise InputError(f"partition: clients: expected at most one a training owner ({len(label)}), found {clients}")
    least = max(1, int(np.ceil(least_share * size.sum() / clients - 1e-9)))
    best = 0
    for attempt in range(ATTEMPTS):
        share = shares(int(label.max()) + 1, clients, alpha, seed, attempt)
        smallest = _smallest(label, size, share)
        if smallest >= least:
            return share, attempt
        best = max(best, smallest)
    raise InputError(
        f"partition: alpha: expected one by which each of {clients} clients gets at least {least} training sequences, "
        f"found {alpha:g}, where the smallest client has {best} at best in {ATTEMPTS} draws; "
        + _feasible(label, size, clients, alpha, least, seed)
    )


def _smallest(label: NDArray[np.int64], size: NDArray[np.int64], share: NDArray[np.float64]) -> int:
    held = np.bincount(deal(label, share), weights=size, minlength=share.shape[1])
    return int(held.min())


def _feasible(
    label: NDArray[np.int64], size: NDArray[np.int64], clients: int, alpha: float, least: int, seed: int
) -> str:
    while alpha <= _LARGEST_ALPHA:
        alpha *= 2
        for attempt in range(_SEARCH_ATTEMPTS):
            share = shares(int(label.max()) + 1, clients, alpha, seed, attempt)
            if _smallest(label, size, share) >= least:
                return f"the feasible minimum is about {alpha:g}"
    return "no alpha is feasible: take fewer clients"
