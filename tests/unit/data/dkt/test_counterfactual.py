"""Counterfactuals agree with the log where the log can tell, and the confounding is what the settings say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from fedloom.data.trajectories.dkt.counterfactual import (
    POLICIES,
    Prefix,
    own_noise,
    plan,
    potentials,
    rollout,
    window_values,
)
from fedloom.data.trajectories.dkt.noise import uniform
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.errors import InputError

from .conftest import Case, make


@pytest.mark.parametrize("begun", [0, 1, 25, 49])
def test_logged_actions_with_logged_noise_give_the_logged_outcomes(small: Case, begun: int) -> None:
    prefix = Prefix(small.log.t[:, :begun], small.log.y[:, :begun])
    again = rollout(small.world, small.units, small.log.t[:, begun:], prefix=prefix)
    np.testing.assert_array_equal(again.y, small.log.y[:, begun:] == 1)
    np.testing.assert_array_equal(again.a.astype(np.float32), small.padded.a[:, begun:, 0])


def test_a_beginning_that_is_given_equals_one_that_is_rolled_out(small: Case) -> None:
    whole = rollout(small.world, small.units, small.log.t)
    rest = rollout(
        small.world, small.units, small.log.t[:, 20:], prefix=Prefix(small.log.t[:, :20], small.log.y[:, :20])
    )
    np.testing.assert_array_equal(rest.p, whole.p[:, 20:])


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_the_batch_changes_no_counterfactual(small: Case, batch: int) -> None:
    items = plan(small.world, "early_on", 50)
    one, other = (rollout(small.world, small.units[:65], items, batch=size) for size in (batch, 512))
    np.testing.assert_array_equal(one.p, other.p)
    prefix = Prefix(small.log.t[:5, :40], small.log.y[:5, :40])
    values = [window_values(small.world, small.units[:5], prefix, 10, 3, batch=size) for size in (batch, 512)]
    np.testing.assert_array_equal(*values)


def test_units_come_in_any_order_and_more_than_once(small: Case) -> None:
    units = np.array([7, 3, 7])
    found = rollout(small.world, units, plan(small.world, "always", 50))
    everyone = rollout(small.world, small.units, plan(small.world, "always", 50))
    np.testing.assert_array_equal(found.p, everyone.p[units])


def test_answers_are_thresholds_of_the_noise(small: Case) -> None:
    units = small.units[:20]
    for noise, expected in ((np.zeros((20, 50)), True), (np.ones((20, 50)), False)):
        assert (rollout(small.world, units, plan(small.world, "never", 50), noise=noise).y == expected).all()
    own = rollout(small.world, units, plan(small.world, "never", 50))
    np.testing.assert_array_equal(own.y, own_noise(small.world, units, 50) < own.p)


def test_potentials_are_the_rollouts_own_probabilities(small: Case) -> None:
    whole = rollout(small.world, small.units, small.log.t)
    every = potentials(small.world, small.units, small.log)
    at_logged = np.take_along_axis(every, small.log.t[..., None], axis=2)[..., 0]
    np.testing.assert_array_equal(at_logged, whole.p.astype(np.float32))


def test_a_policy_may_follow_the_context(small: Case) -> None:
    def remedial(step: int, rows: np.ndarray, context: np.ndarray) -> np.ndarray:
        return np.where(context < 0.6, small.world.off, small.world.on)

    found = rollout(small.world, small.units, remedial)
    np.testing.assert_array_equal(found.t, np.where(found.a < 0.6, small.world.off, small.world.on))
    assert set(found.t.ravel()) == {small.world.off, small.world.on}


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_value_is_the_mean_of_plain_rollouts_under_the_same_draws(small: Case, policy: str) -> None:
    units, draws, steps = small.units[:4], 6, 25
    prefix = Prefix(small.log.t[:4, :25], small.log.y[:4, :25])
    values = window_values(small.world, units, prefix, steps, draws)[list(POLICIES).index(policy)]
    noise = uniform(small.settings.seed, "draw", units, draws, steps)
    for draw in range(draws):
        rolled = rollout(small.world, units, plan(small.world, policy, steps), prefix=prefix, noise=noise[:, draw])
        np.testing.assert_allclose(values[:, draw], rolled.p.mean(axis=1), rtol=1e-12)


def test_more_draws_keep_the_first_ones_and_another_stream_has_others(small: Case) -> None:
    prefix = Prefix(small.log.t[:6, :45], small.log.y[:6, :45])
    few, many = (window_values(small.world, small.units[:6], prefix, 5, draws) for draws in (4, 9))
    np.testing.assert_array_equal(many[..., :4], few)
    other = window_values(small.world, small.units[:6], prefix, 5, 4, stream="floor")
    assert (other != few).mean() > 0.6


def test_early_on_gives_the_larger_half_of_an_odd_window_first(small: Case) -> None:
    on, off = small.world.on, small.world.off
    assert list(plan(small.world, "early_on", 5)) == [on, on, on, off, off]
    assert list(plan(small.world, "late_on", 5)) == [off, off, off, on, on]
    assert list(plan(small.world, "early_on", 1)) == [on]
    assert set(plan(small.world, "always", 5)) == {on}
    assert set(plan(small.world, "never", 5)) == {off}


def test_without_confounding_the_naive_contrast_is_the_effect(unconfounded: Case) -> None:
    pair = unconfounded.anchor_potentials()
    assert unconfounded.naive_contrast() == pytest.approx((pair[..., 1] - pair[..., 0]).mean(), abs=0.03)


def test_with_confounding_the_naive_contrast_misses_the_effect(confounded: Case) -> None:
    pair = confounded.anchor_potentials()
    assert confounded.naive_contrast() - (pair[..., 1] - pair[..., 0]).mean() >= 0.08


def weighted_gaps(case: Case) -> np.ndarray:
    """Inverse-propensity estimates of the step values of off, on and of their contrast, less the truth, in standard
    errors over students."""
    pair, gaps = case.anchor_potentials(), []
    for column, item in enumerate((case.world.off, case.world.on)):
        weighted = ((case.padded.t == item) * case.padded.y / case.padded.propensity).mean(axis=1)
        gaps.append(weighted - pair[..., column].mean(axis=1))
    gaps.append(gaps[1] - gaps[0])
    return np.array([gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))) for gap in gaps])


def effect_by_site(case: Case) -> np.ndarray:
    """True step effect, mean over the students of each site."""
    pair, site = case.anchor_potentials(), case.data.table["label"].to_numpy()
    effect = (pair[..., 1] - pair[..., 0]).mean(axis=1)
    return np.array([effect[site == name].mean() for name in np.unique(site)])


def test_true_propensities_remove_the_confounding(confounded: Case, unconfounded: Case) -> None:
    for case in (confounded, unconfounded):
        assert (np.abs(weighted_gaps(case)) < 3).all()


def test_a_site_outcome_moves_effects_and_leaves_the_log_identified(confounded: Case) -> None:
    case = make(DktSynth(sequences=4000, site_outcome=0.5))
    assert effect_by_site(case).std() > 3 * effect_by_site(confounded).std()
    assert (np.abs(weighted_gaps(case)) < 3).all()


def test_with_a_hidden_confounder_the_logged_propensities_miss_the_truth() -> None:
    case = make(DktSynth(sequences=4000, hidden=1.0))
    _, _, contrast = weighted_gaps(case)
    assert contrast > 4


def test_the_propensity_of_a_hidden_confounder_is_its_mean() -> None:
    case = make(DktSynth(sequences=2, hidden=1.0))
    students = case.world.students(np.array([1])).take(np.zeros(50_001, dtype=np.int64))
    known = replace(students, hidden=ndtri((np.arange(50_001) + 0.5) / 50_001))
    context, item = np.full(50_001, 0.7), np.full(50_001, case.world.on)
    chosen_with = case.world.policy(known, context)[:, case.world.on]
    assert chosen_with.std() > 0.02
    np.testing.assert_allclose(case.world.propensity(students, context, item), chosen_with.mean(), rtol=1e-4)


@pytest.mark.parametrize("item", [-1, 50])
def test_an_item_that_does_not_exist_is_refused_padding_included(small: Case, item: int) -> None:
    wrong, units = np.full((2, 5), item), small.units[:2]
    for call in (
        lambda: rollout(small.world, units, wrong),
        lambda: rollout(small.world, units, plan(small.world, "never", 5), prefix=Prefix(wrong, 0 * wrong)),
        lambda: potentials(small.world, units, Prefix(wrong, 0 * wrong)),
    ):
        with pytest.raises(InputError, match=f"actions: expected an item from 0 to 49, found {item}"):
            call()
