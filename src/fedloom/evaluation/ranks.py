"""Do methods differ over many blocks? Friedman's test of their ranks, and how far mean ranks must lie apart (Nemenyi).

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006, Sec. 3.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedloom.errors import InputError

Floats = NDArray[np.float64]

LEVEL = 0.05


@dataclass(frozen=True)
class Ranks:
    """``mean_M`` ranks of M methods, 1 the best, over ``blocks``; Friedman's ``p``; the ``critical`` difference."""

    mean_M: Floats
    blocks: int
    p: float
    critical: float


def ranks(values_BM: Floats, largest: bool = False) -> Ranks:
    """Rank M methods in each of B blocks: the least value is the best, or the ``largest``; ties share their mean rank.

    Raises InputError for fewer than three methods or two blocks, which Friedman's test needs.
    """
    blocks, methods = values_BM.shape
    if methods < 3 or blocks < 2:
        raise InputError(f"ranks: expected at least 3 methods and 2 blocks, found {methods} and {blocks}")
    rank_BM = stats.rankdata(-values_BM if largest else values_BM, axis=1)
    alike = bool((rank_BM == rank_BM[0, 0]).all())
    p = 1.0 if alike else float(stats.friedmanchisquare(*rank_BM.T).pvalue)
    return Ranks(rank_BM.mean(0), blocks, p, critical_difference(methods, blocks))


def critical_difference(methods: int, blocks: int, level: float = LEVEL) -> float:
    """Return by how much the mean ranks of two of ``methods`` must differ over ``blocks`` to be told apart."""
    studentised = stats.studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(studentised * np.sqrt(methods * (methods + 1) / (6 * blocks)))
