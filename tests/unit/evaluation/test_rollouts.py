"""V̂(H_t) from simulations: a reference that asks for every policy, window, step and sequence by itself agrees."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from fedloom.check.problems import CLIENTS, LONGEST, PROTOCOL, trajectory_problem
from fedloom.evaluation.causal import rollouts
from fedloom.evaluation.causal.rollouts import Course, courses, window_values
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import POLICIES, Policy, plan
from fedloom.evaluation.offpolicy.rows import HORIZONS, sequence_rows
from fedloom.federation.rounds import Federation
from fedloom.federation.worlds import World
from fedloom.methods.fed_causaldiff import FedCausalDiff

FIRST = 1


@cache
def world() -> World:
    federation = Federation(FedCausalDiff(), trajectory_problem().task(PROTOCOL), PROTOCOL, 0)
    weights = federation.weights(federation.run(federation.start()))
    return World(federation.method, federation.skeleton, weights, federation.task)


def problem(seed: int = 0) -> tuple[Log, np.ndarray]:
    """A log over the test sequences of the small problem, in which many follow a policy for a while."""
    task = world().task
    members = task.rows["test"]
    at = members[members >= 0].numpy()
    client = np.nonzero((members >= 0).numpy())[0]
    length = task.arrays.mask[at].sum(1).long().numpy()
    random = np.random.default_rng(seed)
    shape = tuple(task.arrays.t[at].shape)
    chosen = random.choice(3, shape, p=[0.6, 0.35, 0.05])
    outcome = random.integers(0, 2, shape).astype(np.float64)
    return Log(client, np.arange(len(at)), length, chosen, outcome, np.full(shape, 0.4)), at


def alone(log: Log, at: np.ndarray, row: int, policy: Policy, steps: int | None, t: int) -> float:
    """V̂(H_t) of one sequence: one plan, one simulation."""
    width = int(log.length_N[row]) - FIRST if steps is None else steps
    asked = np.asarray(world().task.anchors)[plan(policy, np.array([width]), width)][:, t:]
    units = torch.tensor([at[row]])
    mean, _ = world().simulate("test", torch.from_numpy(asked), FIRST + t, 1, units)
    return float(mean[0, 0, 0]) * (width - t) / width


@pytest.fixture
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate wherever anyone followed."""
    monkeypatch.setattr(rollouts, "LEAST_ESS", 1)


@pytest.mark.usefixtures("few_are_enough")
def test_values_are_those_of_simulating_one_policy_window_and_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # A step's noise must not depend on how many steps follow, which the reference asks for one window at a time.
    def steady(
        self: World, at_CB: torch.Tensor, site: str, shape: tuple[int, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.zeros(*at_CB.shape, *shape, self.answers.noise_width, dtype=self.task.dtype)
        return z + 0.3, z[..., 0] + 0.5

    monkeypatch.setattr(World, "_noise", steady)
    log, at = problem()
    values = window_values(world(), log, at, FIRST)
    assert set(values) == {(policy, steps) for policy in POLICIES for steps in HORIZONS}
    checked = 0
    for (policy, steps), v_NW in values.items():
        for row in range(0, len(at), 6):
            left = int(log.length_N[row]) - FIRST
            width = left if steps is None else steps
            if left < max(width, 1):
                assert np.isnan(v_NW[row]).all()
                continue
            asked = plan(policy, np.array([width]), width)[0]
            matched = log.chosen_NL[row, FIRST : FIRST + width] == asked
            for t in range(v_NW.shape[1]):
                if t < width and matched[:t].all():
                    checked += 1
                    assert v_NW[row, t] == pytest.approx(alone(log, at, row, policy, steps, t), abs=1e-9)
                else:
                    assert np.isnan(v_NW[row, t])
    assert checked > 40


@pytest.mark.usefixtures("few_are_enough")
def test_values_do_not_depend_on_how_many_are_simulated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log, at = problem()
    together = window_values(world(), log, at, FIRST)
    monkeypatch.setattr("fedloom.federation.worlds.STEPS_AT_ONCE", 10 * CLIENTS * LONGEST)
    apart = window_values(world(), log, at, FIRST)
    for wanted, v_NW in together.items():
        np.testing.assert_allclose(v_NW, apart[wanted], atol=1e-12)


def test_nothing_is_simulated_where_too_few_follow_and_the_estimate_is_null_there() -> None:
    log, at = problem()
    values = window_values(world(), log, at, FIRST)
    for course in courses(log, FIRST):
        reached = course.reached(log.chosen_NL[:, FIRST:][:, : course.plan_NW.shape[1]])
        assert ((reached[:, 1:].sum(axis=0) == 0) | (reached[:, 1:].sum(axis=0) >= rollouts.LEAST_ESS)).all()
    clients = [str(i) for i in range(log.client_N.max() + 1)]
    rows = {
        (row["condition"], row["horizon"]): row
        for row in sequence_rows(log, clients, "logged", values, FIRST)
        if row["metric"] == "value"
    }
    for policy in POLICIES:
        for horizon in ("1", "2", "3", "5", "all"):
            dm, robust = (
                rows[f"estimator={name},policy={policy},propensity=logged,scope=window", horizon]
                for name in ("dm", "pddr")
            )
            assert (dm["reason"] is None) == (not np.isnan(dm["value"]))
            assert (robust["reason"] is None) == (not np.isnan(robust["value"]))


def test_a_late_step_that_few_sequences_have_is_simulated_where_enough_followed_to_their_own_ends() -> None:
    width_N, chosen_NW = np.array([1] * 40 + [4] * 3), np.zeros((43, 4), dtype=np.int64)
    course = Course(np.zeros_like(chosen_NW), width_N, {})
    assert course.reached(chosen_NW).sum(axis=0).tolist() == [43, 3, 3, 3]
    chosen_NW[:30, 0] = 1
    assert course.reached(chosen_NW).sum(axis=0).tolist() == [43, 0, 0, 0]
