"""Sequence estimators: equal to loops, recursion = sum, single steps at W = 1, exact models, doubly robust."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.log import Log, Window, window
from fedloom.evaluation.offpolicy.policies import OFF, ON, OTHER, POLICIES, Policy, plan
from fedloom.evaluation.offpolicy.sequences import (
    SEQUENCE_ESTIMATORS,
    Followed,
    follow,
    recursion,
    sequence_terms,
)
from fedloom.evaluation.offpolicy.steps import STEP_ESTIMATORS, step_terms
from fedloom.evaluation.offpolicy.weights import Clipping

UNBOUNDED = Clipping(1e-12, np.inf)


def make_log(seed: int, n: int = 300, longest: int = 4) -> Log:
    """Return a log of sequences of 1 to ``longest`` steps with random choices and propensities."""
    random = np.random.default_rng(seed)
    shape = (n, longest)
    return Log(
        random.integers(0, 3, n),
        random.integers(0, n // 2, n),
        random.integers(1, longest + 1, n),
        random.integers(0, 3, shape),
        random.integers(0, 2, shape).astype(np.float64),
        random.uniform(0.2, 0.9, shape),
    )


def estimates(followed: Followed, v: NDArray[np.float64] | None = None) -> dict[str, float]:
    """Return all estimates from sums."""
    sums = {name: values.sum(axis=0) for name, values in sequence_terms(followed, v).items()}
    return {n: float(e(sums)) for n, e in SEQUENCE_ESTIMATORS.items() if v is not None or n not in ("dm", "pddr")}


def loops(part: Window, policy: Policy, v: NDArray[np.float64]) -> dict[str, float]:
    """Return the estimates sequence by sequence and step by step."""
    n, longest = part.chosen_SW.shape
    products, rewards, robust = np.ones((n, longest)), np.zeros((n, longest)), []
    for i in range(n):
        width, product = int(part.width_S[i]), 1.0
        half = int(np.ceil(width / 2))
        for t in range(longest):
            if t < width:
                asked = {"never": OFF, "always": ON, "early_on": ON, "late_on": OFF}[policy]
                if t >= half and policy in ("early_on", "late_on"):
                    asked = ON if policy == "late_on" else OFF
                follows = part.chosen_SW[i, t] == asked
                product = product / part.propensity_SW[i, t] if follows else 0.0
                rewards[i, t] = part.outcome_SW[i, t] / width
            products[i, t] = product
        total, before = 0.0, 1.0
        for t in range(width):
            total += products[i, t] * (rewards[i, t] - v[i, t]) + before * v[i, t]
            before = products[i, t]
        robust.append(total)
    last = products[:, -1]
    return {
        "dm": v[:, 0].mean(),
        "ips": np.mean(last * rewards.sum(1)),
        "wis": np.sum(last * rewards.sum(1)) / last.sum(),
        "pdis": np.mean((products * rewards).sum(1)),
        "pdwis": sum((products[:, t] * rewards[:, t]).sum() / products[:, t].sum() for t in range(longest)),
        "pddr": float(np.mean(robust)),
    }


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("steps", [2, 3, None])
def test_estimates_are_what_loops_over_sequences_and_steps_give(policy: Policy, steps: int | None) -> None:
    part = window(make_log(1), 0, steps)
    v = np.random.default_rng(2).random(part.inside_SW.shape)
    assert estimates(follow(part, policy, UNBOUNDED), v) == pytest.approx(loops(part, policy, v), rel=1e-9)


@given(st.integers(0, 1000), st.sampled_from(POLICIES))
def test_the_recursion_is_the_sum_written_out(seed: int, policy: Policy) -> None:
    part = window(make_log(seed, n=20, longest=6), 0, 3)
    followed = follow(part, policy, UNBOUNDED)
    q, v = np.random.default_rng(seed).normal(size=(2, *part.inside_SW.shape))
    products = followed.product_SW
    before = np.concatenate([np.ones((len(products), 1)), products[:, :-1]], axis=1)
    written_out = (products * (followed.reward_SW - q) + before * v).sum(axis=1)
    assert recursion(followed, q, v) == pytest.approx(written_out, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_with_a_window_of_one_step_they_are_the_step_estimators(policy: Policy) -> None:
    part = window(make_log(4), 0, 1)
    q = np.random.default_rng(5).random((len(part.row_S), 2))
    asked = plan(policy, part.width_S, 1)[:, 0]
    followed = follow(part, policy, UNBOUNDED)
    # Where the anchor asked for was taken, the logged action is that anchor; elsewhere nothing weighs.
    terms = step_terms(followed.weight_S, part.outcome_SW[:, 0], *[q[np.arange(len(q)), asked]] * 2)
    steps = {name: e({k: v.sum() for k, v in terms.items()}) for name, e in STEP_ESTIMATORS.items()}
    found = estimates(followed, q[np.arange(len(q)), asked][:, None])
    expected = {"dm": "dm", "ips": "ips", "wis": "snips", "pdis": "ips", "pdwis": "snips", "pddr": "dr"}
    assert found == pytest.approx({name: float(steps[of]) for name, of in expected.items()}, rel=1e-12)


def test_early_on_is_always_and_late_on_is_never_in_a_window_of_one_step() -> None:
    width = np.array([1, 2, 3])
    plans = {policy: plan(policy, width, 3) for policy in POLICIES}
    assert (plans["early_on"][0, 0], plans["late_on"][0, 0]) == (ON, OFF)
    assert [plans["early_on"][i, : width[i]].tolist() for i in range(3)] == [[1], [1, 0], [1, 1, 0]]
    assert [plans["late_on"][i, : width[i]].tolist() for i in range(3)] == [[0], [0, 1], [0, 0, 1]]


def test_a_step_is_bounded_by_how_many_could_and_did_follow_it() -> None:
    n = 100
    chosen = np.full((n, 2), OFF)
    chosen[50:, 0], chosen[25:, 1] = OTHER, OTHER
    propensity = np.full((n, 2), 0.5)
    propensity[0] = 0.01
    everyone = np.arange(n)
    log = Log(np.zeros(n, dtype=np.int64), everyone, np.full(n, 2), chosen, np.ones((n, 2)), propensity)
    followed = follow(window(log), "never", Clipping())
    assert followed.ratio_SW[0] == pytest.approx([100 / 50**0.5, 50 / 25**0.5])
    assert followed.clipped_S.sum() == 1


def test_products_of_fifty_small_propensities_stay_finite() -> None:
    shape = (1, 200)
    one = np.zeros(1, dtype=np.int64)
    log = Log(one, one, np.array([200]), np.zeros(shape, dtype=np.int64), np.ones(shape), np.full(shape, 0.06))
    assert follow(window(log), "never", UNBOUNDED).weight_S[0] == pytest.approx((1 / 0.06) ** 200, rel=1e-9)


# A process of two steps: state s1 by a coin, s2 hangs on s1 and the action. All tables are known, so are V and Q.
START = np.array([0.4, 0.6])
CHANCE = np.array([[0.9, 0.2, 0.5], [0.3, 0.8, 0.5]])
MOVE = np.array([[0.7, 0.1, 0.5], [0.4, 0.9, 0.5]])
BEHAVIOUR = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])


def chain(seed: int, n: int, noisy: bool = True) -> tuple[Log, NDArray[np.int64]]:
    """Return a log of the process and its states [n, 2]; without noise an outcome is its own chance."""
    random = np.random.default_rng(seed)
    state = np.zeros((n, 2), dtype=np.int64)
    chosen, outcome, propensity = np.zeros((n, 2), dtype=np.int64), np.zeros((n, 2)), np.zeros((n, 2))
    state[:, 0] = random.random(n) < START[1]
    for t in range(2):
        chosen[:, t] = (random.random(n)[:, None] > BEHAVIOUR[state[:, t]].cumsum(1)).sum(1).clip(max=OTHER)
        propensity[:, t] = BEHAVIOUR[state[:, t], chosen[:, t]]
        chance = CHANCE[state[:, t], chosen[:, t]]
        outcome[:, t] = random.random(n) < chance if noisy else chance
        if t == 0:
            state[:, 1] = random.random(n) < MOVE[state[:, 0], chosen[:, 0]]
    everyone = np.arange(n)
    return Log(np.zeros(n, dtype=np.int64), everyone, np.full(n, 2), chosen, outcome, propensity), state


def exact(policy: Policy) -> tuple[NDArray[np.float64], float]:
    """Return V(s) by step [2 steps, 2 states] and the policy's value, as means over the window."""
    first, second = plan(policy, np.array([2]), 2)[0]
    last = CHANCE[:, second] / 2
    begin = CHANCE[:, first] / 2 + (1 - MOVE[:, first]) * last[0] + MOVE[:, first] * last[1]
    return np.stack([begin, last]), float(START @ begin)


@pytest.mark.parametrize("policy", POLICIES)
def test_exact_models_leave_no_variance_but_that_of_the_start(policy: Policy) -> None:
    """With V̂ and Q̂ exact and nothing random in a step, V_1 of a sequence is V of its first state, to the last digit."""
    random = np.random.default_rng(0)
    n = 500
    state = random.integers(0, 2, n)
    chosen = random.integers(0, 3, (n, 2))
    outcome = CHANCE[state[:, None], chosen]
    log = Log(np.zeros(n, dtype=np.int64), np.arange(n), np.full(n, 2), chosen, outcome, np.full((n, 2), 1 / 3))
    asked = plan(policy, np.array([2]), 2)[0]
    v = np.stack([CHANCE[state][:, asked].sum(1) / 2, CHANCE[state, asked[1]] / 2], axis=1)
    robust = sequence_terms(follow(window(log), policy, UNBOUNDED), v)["dr"]
    for s in (0, 1):
        assert np.ptp(robust[state == s]) < 1e-12
        assert robust[state == s][0] == pytest.approx(CHANCE[s, asked].mean(), rel=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("right", ["model", "propensity"])
def test_per_decision_dr_needs_only_one_of_model_and_propensity(policy: Policy, right: str) -> None:
    log, state = chain(5, 200_000)
    by_step, truth = exact(policy)
    v = np.stack([by_step[0][state[:, 0]], by_step[1][state[:, 1]]], axis=1)
    if right == "propensity":
        v = np.full_like(v, 0.05)
    else:
        log = Log(log.client_N, log.owner_N, log.length_N, log.chosen_NL, log.outcome_NL, np.full((len(v), 2), 0.4))
    found = estimates(follow(window(log), policy, UNBOUNDED), v)
    assert found["pddr"] == pytest.approx(truth, abs=0.01)
    if right == "propensity":
        for name in ("ips", "wis", "pdis", "pdwis"):
            assert found[name] == pytest.approx(truth, abs=0.02)
        assert abs(found["dm"] - truth) > 0.1


def test_an_exact_model_makes_the_estimate_steadier_than_weights_alone() -> None:
    by_step, _ = exact("always")
    found = []
    for seed in range(40):
        log, state = chain(seed, 400)
        v = np.stack([by_step[0][state[:, 0]], by_step[1][state[:, 1]]], axis=1)
        found.append(estimates(follow(window(log), "always", UNBOUNDED), v))
    spread = {name: np.std([each[name] for each in found]) for name in ("ips", "pdis", "pddr")}
    assert spread["pddr"] < spread["pdis"] < spread["ips"]


def test_answers_of_a_model_are_not_read_where_the_policy_was_left() -> None:
    part = window(make_log(8), 0, 3)
    followed = follow(part, "never", UNBOUNDED)
    v = np.full(part.inside_SW.shape, 0.3)
    gone = v.copy()
    left = np.cumsum(part.chosen_SW != OFF, axis=1) > 0
    gone[:, 1:][left[:, :-1]] = np.nan
    assert estimates(followed, gone) == pytest.approx(estimates(followed, v))
