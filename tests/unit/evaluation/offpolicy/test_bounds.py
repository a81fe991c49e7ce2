"""Conservative bounds hold the value, however weights are truncated and whatever the log leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.evaluation.offpolicy.rows import PolicySteps, policy_rows

ROWS = 400


def steps(seed: int, forbidden: float) -> tuple[PolicySteps, float]:
    """A log in which a covariate decides action and outcome, and the true value of always taking action 1.

    Where the covariate is above ``forbidden`` the log never takes it, and there it would always succeed.
    """
    rng = np.random.default_rng(seed)
    covariate = rng.uniform(0, 1, ROWS)
    propensity = np.where(covariate > forbidden, 0.0, 0.02 + 0.5 * (1 - covariate))
    taken = rng.uniform(0, 1, ROWS) < propensity
    success = np.where(covariate > forbidden, 1.0, 0.2 + 0.6 * covariate)
    outcome = np.where(taken, rng.uniform(0, 1, ROWS) < success, rng.uniform(0, 1, ROWS) < 0.5).astype(float)
    grid = (np.arange(10_000) + 0.5) / 10_000
    truth = float(np.where(grid > forbidden, 1.0, 0.2 + 0.6 * grid).mean())
    logged = np.where(taken, propensity, 1 - propensity)
    owner = np.arange(ROWS)
    asked = PolicySteps(taken.astype(float), logged, outcome, owner % 4, owner, None, None)
    return asked, truth


def found(asked: PolicySteps) -> tuple[float, float, dict[str, float]]:
    under = {"scope": "step", "policy": "always", "propensity": "logged"}
    rows, estimates = policy_rows(asked, ["a", "b", "c", "d"], under, None)
    value = {row["metric"]: row["value"] for row in rows if row["metric"].startswith("value_")}
    return value["value_lower"], value["value_upper"], {name: each.value for name, each in estimates.items()}


@pytest.mark.parametrize("forbidden", [1.0, 0.7])
def test_the_true_value_lies_within_with_and_without_overlap(forbidden: float) -> None:
    inside = 0
    for seed in range(60):
        asked, truth = steps(seed, forbidden)
        lower, upper, _ = found(asked)
        assert 0 <= lower <= upper <= 1
        inside += lower <= truth <= upper
    assert inside >= 56


def test_without_overlap_an_estimate_misses_what_the_bounds_leave_open() -> None:
    asked, truth = steps(3, 0.7)
    lower, upper, estimates = found(asked)
    assert estimates["snips"] < truth - 0.1
    assert lower < estimates["snips"] < truth < upper
    assert upper - lower > 0.3  # what is missing of the log's weight


def test_bounds_of_a_well_supported_policy_are_its_interval() -> None:
    rng = np.random.default_rng(1)
    outcome = (rng.uniform(0, 1, ROWS) < 0.7).astype(float)
    owner = np.arange(ROWS)
    everything = PolicySteps(np.ones(ROWS), np.ones(ROWS), outcome, owner % 4, owner, None, None)
    lower, upper, estimates = found(everything)
    assert lower < estimates["ips"] < upper
    assert upper - lower == pytest.approx(2 * 1.96 * np.sqrt(0.7 * 0.3 / ROWS), rel=0.15)


@pytest.mark.parametrize("kept", [0, 5])
def test_where_next_to_nothing_follows_the_policy_every_value_is_left_open(kept: int) -> None:
    asked, _ = steps(0, 1.0)
    target = asked.target_R * (np.cumsum(asked.target_R) <= kept)
    few = PolicySteps(target, asked.propensity_R, asked.outcome_R, asked.client_R, asked.owner_R, None, None)
    assert found(few)[:2] == (0.0, 1.0)
