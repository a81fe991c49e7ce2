"""Ranks over blocks: Friedman's test and Nemenyi's critical difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedloom.errors import InputError
from fedloom.evaluation.ranks import critical_difference, ranks


@pytest.mark.parametrize(
    ("methods", "critical"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)]
)
def test_critical_values_are_those_of_the_published_table(methods: int, critical: float) -> None:
    """Demšar 2006, Table 5 (a)."""
    assert critical_difference(methods, 1) / np.sqrt(methods * (methods + 1) / 6) == pytest.approx(critical, abs=1e-3)


def test_the_best_has_rank_1_and_ties_share_theirs() -> None:
    values = np.array([[1.0, 2.0, 2.0, 5.0], [1.0, 3.0, 2.0, 4.0]])
    assert ranks(values).mean_M.tolist() == [1, 2.75, 2.25, 4]
    assert ranks(values, largest=True).mean_M.tolist() == [4, 2.25, 2.75, 1]


def test_the_p_value_is_friedmans() -> None:
    values = np.random.default_rng(0).normal(size=(12, 5)) + np.arange(5) * 0.5
    assert ranks(values).p == pytest.approx(stats.friedmanchisquare(*values.T).pvalue, rel=1e-12)


def test_methods_that_are_the_same_are_not_told_apart() -> None:
    found = ranks(np.ones((10, 4)))
    assert found.p == 1
    assert np.ptp(found.mean_M) == 0


def test_without_a_difference_methods_are_seldom_told_apart() -> None:
    random = np.random.default_rng(1)
    found = [ranks(random.normal(size=(24, 4))) for _ in range(300)]
    assert np.mean([np.ptp(each.mean_M) > each.critical for each in found]) <= 0.08


def test_two_methods_or_one_block_are_refused() -> None:
    with pytest.raises(InputError, match="found 2 and 5"):
        ranks(np.ones((5, 2)))
    with pytest.raises(InputError, match="found 4 and 1"):
        ranks(np.ones((1, 4)))
