"""Noise as data: uniform draws keyed by (seed, site, unit), so that no draw depends on what else is drawn.

Each unit has its own counter range of NumPy's Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011), and only raw words are taken from it: those are the one thing that NumPy promises never to change.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def uniform(seed: int, site: str, units: Iterable[int], *shape: int) -> Array:
    """Return draws in (0, 1), [units, *shape]; a unit's draws of a smaller shape are the first ones of a larger.

    ``seed`` and ``units`` are non-negative; ``site`` says what the draws are for.
    """
    key = np.array([seed, int.from_bytes(hashlib.blake2b(site.encode(), digest_size=8).digest(), "little")], np.uint64)
    size = math.prod(shape)
    words = [np.random.Philox(key=key, counter=_counter(unit)).random_raw(size) for unit in units]
    high = np.array(words, dtype=np.uint64).reshape(len(words), *shape) >> np.uint64(11)
    return (high.astype(np.float64) + 0.5) / 2.0**53


def normal(seed: int, site: str, units: Iterable[int], *shape: int) -> Array:
    """Return standard normal draws [units, *shape], keyed as those of ``uniform``."""
    return np.asarray(ndtri(uniform(seed, site, units, *shape)))


def _counter(unit: int) -> NDArray[np.uint64]:
    # Philox counts up in the first word, so units that differ in the last never meet.
    return np.array([0, 0, 0, unit], dtype=np.uint64)
