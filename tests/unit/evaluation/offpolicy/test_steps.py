"""Step estimators equal independent implementations, clip as they say, and are doubly robust."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.errors import InputError
from fedloom.evaluation.offpolicy.policies import OFF, ON, OTHER
from fedloom.evaluation.offpolicy.steps import STEP_ESTIMATORS, step_terms
from fedloom.evaluation.offpolicy.weights import CLIPPING, Clipping, weigh

UNBOUNDED = Clipping(least_propensity=1e-12, largest_weight=np.inf)


def problem(seed: int, rows: int = 400, uniform: bool = False) -> dict[str, Any]:
    """Return logged rows: three groups of actions, a target that may choose at random, and a model's answers."""
    random = np.random.default_rng(seed)
    behaviour = random.dirichlet(np.full(3, 0.8), rows)
    chosen = (random.random(rows)[:, None] > behaviour.cumsum(1)).sum(1).clip(max=OTHER)
    target = random.dirichlet(np.ones(3), rows) if uniform else np.eye(3)[random.integers(0, 2, rows)]
    outcome = (random.random(rows) < 0.2 + 0.2 * chosen).astype(np.float64)
    return {
        "chosen": chosen,
        "outcome": outcome,
        "propensity": behaviour[np.arange(rows), chosen],
        "target": target,
        "q": random.random((rows, 3)),
    }


def ours(made: dict[str, Any], clipping: Clipping) -> dict[str, float]:
    """Return all estimates from sums."""
    rows = np.arange(len(made["chosen"]))
    weights = weigh(made["target"][rows, made["chosen"]], made["propensity"], clipping)
    q_target, q_logged = (made["target"] * made["q"]).sum(1), made["q"][rows, made["chosen"]]
    terms = step_terms(weights.weight, made["outcome"], q_target, q_logged)
    sums = {name: values.sum() for name, values in terms.items()}
    return {name: float(estimator(sums)) for name, estimator in STEP_ESTIMATORS.items()}


def loops(made: dict[str, Any], clipping: Clipping) -> dict[str, float]:
    """Return the same estimates row by row, as the definitions read."""
    weighted = weight_sum = corrected = model = 0.0
    matches = sum(pi[a] > 0 for a, pi in zip(made["chosen"], made["target"], strict=True))
    largest = clipping.largest_weight or len(made["chosen"]) / max(matches, 1) ** 0.5
    for a, y, e, pi, q in zip(*(made[k] for k in ("chosen", "outcome", "propensity", "target", "q")), strict=True):
        weight = min(pi[a] / max(e, clipping.least_propensity), largest)
        weighted += weight * y
        weight_sum += weight
        corrected += weight * (y - q[a])
        model += sum(p * each for p, each in zip(pi, q, strict=True))
    n = len(made["chosen"])
    return {
        "dm": model / n,
        "ips": weighted / n,
        "snips": weighted / weight_sum,
        "dr": (model + corrected) / n,
        "sndr": model / n + corrected / weight_sum,
    }


@given(st.integers(0, 1000), st.booleans(), st.sampled_from([Clipping(), UNBOUNDED, Clipping(0.2, 3.0)]))
def test_estimates_are_what_the_definitions_say_row_by_row(seed: int, uniform: bool, clipping: Clipping) -> None:
    made = problem(seed, 60, uniform)
    assert ours(made, clipping) == pytest.approx(loops(made, clipping), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("clipped", [False, True])
def test_estimates_equal_those_of_the_open_bandit_pipeline(uniform: bool, clipped: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ope = pytest.importorskip("obp.ope", reason="the Open Bandit Pipeline is not installed", exc_type=ImportError)
    made = problem(7, 3000, uniform)
    rows = np.arange(len(made["chosen"]))
    clipping = Clipping(0.01, 20.0) if clipped else UNBOUNDED
    propensity = made["propensity"]
    if clipped:
        # It has no bounds of its own: the propensity at which a weight is the bounded one stands for them.
        target = made["target"][rows, made["chosen"]]
        propensity = np.maximum(np.maximum(propensity, 0.01), target / 20)
    given_ = {
        "reward": made["outcome"],
        "action": made["chosen"],
        "position": np.zeros(len(rows), dtype=int),
        "pscore": propensity,
        "action_dist": made["target"][:, :, None],
        "estimated_rewards_by_reg_model": made["q"][:, :, None],
    }
    theirs = {
        "dm": ope.DirectMethod(),
        "ips": ope.InverseProbabilityWeighting(),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting(),
        "dr": ope.DoublyRobust(),
        "sndr": ope.SelfNormalizedDoublyRobust(),
    }
    expected = {name: float(estimator.estimate_policy_value(**given_)) for name, estimator in theirs.items()}
    assert ours(made, clipping) == pytest.approx(expected, rel=1e-9)


def world(seed: int, rows: int = 200_000) -> dict[str, Any]:
    """Return a log whose truth is known: outcome and action both hang on a covariate."""
    random = np.random.default_rng(seed)
    x = random.random(rows)
    behaviour = np.stack([0.2 + 0.4 * x, 0.5 - 0.3 * x, 0.3 - 0.1 * x], axis=1)
    chosen = (random.random(rows)[:, None] > behaviour.cumsum(1)).sum(1)
    chance = np.stack([0.2 + 0.5 * x, 0.7 - 0.4 * x, np.full(rows, 0.5)], axis=1)
    outcome = (random.random(rows) < chance[np.arange(rows), chosen]).astype(np.float64)
    return {"x": x, "behaviour": behaviour, "chosen": chosen, "chance": chance, "outcome": outcome}


@pytest.mark.parametrize("right", ["q", "propensity"])
def test_one_right_model_of_two_is_enough_for_the_doubly_robust_ones(right: str) -> None:
    made = world(3)
    rows = np.arange(len(made["x"]))
    truth = made["chance"][:, ON].mean()
    wrong_q = np.full_like(made["chance"], 0.1)
    wrong_propensity = np.full_like(made["behaviour"], 1 / 3)
    q = made["chance"] if right == "q" else wrong_q
    behaviour = made["behaviour"] if right == "propensity" else wrong_propensity
    found = {
        "chosen": made["chosen"],
        "outcome": made["outcome"],
        "propensity": behaviour[rows, made["chosen"]],
        "target": np.tile(np.eye(3)[ON], (len(rows), 1)),
        "q": q,
    }
    values = ours(found, UNBOUNDED)
    assert values["dr"] == pytest.approx(truth, abs=0.01)
    assert values["sndr"] == pytest.approx(truth, abs=0.01)
    wrong = "dm" if right == "propensity" else "ips"
    assert abs(values[wrong] - truth) > 0.03


def test_a_policy_that_nobody_followed_has_no_value_by_weights() -> None:
    made = problem(1)
    made["chosen"][:] = OFF
    made["target"][:] = np.eye(3)[ON]
    assert np.isnan(ours(made, Clipping())["snips"])


def test_weights_say_where_a_bound_changed_them() -> None:
    found = weigh(np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.5, 0.04, 0.001, 0.001]), Clipping(0.01, 20.0))
    assert found.weight.tolist() == [2.0, 20.0, 20.0, 0.0]
    assert found.clipped.tolist() == [False, True, True, False]


@pytest.mark.parametrize("propensity", [0.0, -0.1, 1.5, float("nan")])
def test_an_impossible_propensity_is_refused_where_it_counts(propensity: float) -> None:
    with pytest.raises(InputError, match="propensity: expected above 0 and at most 1"):
        weigh(np.ones(2), np.array([0.5, propensity]), UNBOUNDED)
    assert weigh(np.array([1.0, 0.0]), np.array([0.5, propensity]), UNBOUNDED).weight.tolist() == [2.0, 0.0]


def test_no_weight_is_more_than_root_m_times_what_m_matching_rows_weigh_on_average() -> None:
    target = np.repeat([1.0, 0.0], [25, 75])
    propensity = np.full(100, 0.25)
    propensity[0] = 0.001
    found = weigh(target, propensity, Clipping())
    assert found.bound == found.weight[0] == 100 / 25 * 5
    assert found.clipped.sum() == 1
    assert weigh(target, propensity, CLIPPING["estimated"]).bound == 20.0
    assert weigh(target[:, None], propensity[:, None], Clipping(), np.array([50])).bound == 50 / 5
    assert weigh(np.repeat(target, 100), np.full(10_000, 0.25), CLIPPING["estimated"]).bound == 100.0


@pytest.mark.parametrize("actions", [2, 80, 1000])
def test_a_policy_of_one_among_many_actions_keeps_its_weights_under_a_uniform_log(actions: int) -> None:
    chosen = np.arange(40 * actions) % actions
    found = weigh((chosen == 0).astype(np.float64), np.full(len(chosen), 1 / actions), CLIPPING["logged"])
    assert not found.clipped.any()
    assert found.weight.sum() == pytest.approx(len(chosen))


def test_the_bound_leaves_a_bias_that_fades_with_the_log_where_a_fixed_one_does_not() -> None:
    """Rare choices do well: a bound takes from exactly those."""
    biases = []
    for rows in (2_000, 200_000):
        random = np.random.default_rng(4)
        propensity = random.choice([0.5, 0.01], rows, p=[0.7, 0.3])
        outcome = np.where(propensity < 0.1, 1.0, 0.0)
        taken = (random.random(rows) < propensity).astype(np.float64)
        exact = (taken / propensity * outcome).sum() / rows
        bounded = [weigh(taken, propensity, bound).weight for bound in (Clipping(0, 20.0), Clipping())]
        biases.append([abs((weight * outcome).mean() - exact) for weight in bounded])
    (fixed_few, own_few), (fixed_many, own_many) = biases
    assert own_few < fixed_few / 2
    assert own_many == 0.0 < 0.1 < fixed_many
