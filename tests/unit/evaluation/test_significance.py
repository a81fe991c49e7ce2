"""The paired test finds a difference that is there, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.errors import InputError
from fedloom.evaluation.forecast.significance import BlockErrors, compare, holm

NODES, BLOCKS, READINGS = 20, 24, 50


def errors(seed: int, shift: float = 0.0, seeds: int = 2, root: bool = False) -> BlockErrors:
    """Return error sums whose mean is 3 + shift, with noise of its own on every node and block."""
    random = np.random.default_rng(seed)
    sums = READINGS * (3 + shift + random.normal(0, 0.3, (seeds, NODES, BLOCKS)))
    return BlockErrors(sums, np.full((NODES, BLOCKS), float(READINGS)), root)


@pytest.mark.parametrize("unit", ["pooled", "mean"])
def test_a_shifted_method_is_found_with_its_effect_inside_the_interval(unit: str) -> None:
    found = compare(errors(0, shift=0.3), errors(1), unit)  # type: ignore[arg-type]
    assert found.p < 0.01
    assert found.lo < found.effect < found.hi
    assert found.lo < 0.3 < found.hi


@pytest.mark.parametrize("unit", ["pooled", "mean"])
def test_without_a_difference_small_p_values_are_rare(unit: str) -> None:
    p = [compare(errors(2 * i), errors(2 * i + 1), unit, draws=400).p for i in range(60)]  # type: ignore[arg-type]
    assert np.mean(np.array(p) < 0.05) <= 0.1


def test_a_difference_in_a_single_stretch_of_time_is_no_evidence() -> None:
    """One bad day hits all nodes: many nodes, but one independent event."""
    base = errors(0)
    sums = base.sums_SCK.copy()
    sums[:, :, 5] *= 3
    assert compare(BlockErrors(sums, base.count_CK, False), base, "mean").p > 0.05


def test_identical_methods_have_effect_0_and_p_1() -> None:
    found = compare(errors(3), errors(3), "pooled")
    assert (found.effect, found.lo, found.hi, found.p) == (0, 0, 0, 1)


def test_effects_are_differences_of_the_metrics_themselves() -> None:
    one, other = errors(4, shift=1, root=True), errors(5, root=True)

    def pooled(e: BlockErrors) -> float:
        return float(np.mean([np.sqrt(s.sum() / e.count_CK.sum()) for s in e.sums_SCK]))

    def mean(e: BlockErrors) -> float:
        return float(np.mean([np.sqrt(s.sum(1) / e.count_CK.sum(1)).mean() for s in e.sums_SCK]))

    assert compare(one, other, "pooled").effect == pytest.approx(pooled(one) - pooled(other), rel=1e-12)
    assert compare(one, other, "mean").effect == pytest.approx(mean(one) - mean(other), rel=1e-12)


def test_a_block_without_readings_of_a_node_weighs_nothing() -> None:
    def silent(e: BlockErrors) -> BlockErrors:
        sums, count = e.sums_SCK.copy(), e.count_CK.copy()
        sums[:, 0], count[0] = 0, 0
        return BlockErrors(sums, count, e.root)

    one, other = errors(6, shift=0.3), errors(7)
    found = compare(silent(one), silent(other), "mean")
    ratio = (one.sums_SCK - other.sums_SCK)[:, 1:].sum(2) / other.count_CK[1:].sum(1)
    assert found.effect == pytest.approx(ratio.mean(), rel=1e-12)
    assert np.isfinite([found.lo, found.hi]).all()


def test_methods_scored_on_other_readings_are_refused() -> None:
    one = errors(0)
    other = BlockErrors(one.sums_SCK, one.count_CK + 1, False)
    with pytest.raises(InputError, match="same readings"):
        compare(one, other, "mean")


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
