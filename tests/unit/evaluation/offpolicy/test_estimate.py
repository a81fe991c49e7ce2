"""From what clients send to rows: sums alone, intervals that cover, and a reason wherever the log says nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils import resample

from fedloom.evaluation.causal.sampler import action_shares
from fedloom.evaluation.offpolicy.estimate import Support, estimate, support
from fedloom.evaluation.offpolicy.federated import Upload, bin_edges, cluster_sums, combine, owner_draws, upload
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import OFF, ON, OTHER
from fedloom.evaluation.offpolicy.rows import (
    PolicySteps,
    log_rows,
    on_policy_row,
    overlap_rows,
    policy_rows,
    sequence_rows,
    step_rows,
)
from fedloom.evaluation.offpolicy.steps import STEP_ESTIMATORS, step_terms
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS

CLIENTS = ["c00", "c01", "c02"]
SPEC = {"dataset": "made", "method": "m", "variant": "base", "seed": 0}


def send(weight: np.ndarray, outcome: np.ndarray, owner: np.ndarray | None = None, client: str = "c00") -> Upload:
    """Return what a client sends for rows of its own, none of them clipped."""
    owner = np.arange(len(weight)) if owner is None else owner
    return upload(step_terms(weight, outcome), outcome, np.zeros(len(weight), dtype=bool), owner, client)


def make_log(n: int = 900, longest: int = 6, seed: int = 0) -> Log:
    """Return a log with enough of everything."""
    random = np.random.default_rng(seed)
    shape = (n, longest)
    chosen = random.choice(3, shape, p=[0.4, 0.4, 0.2])
    outcome = (random.random(shape) < 0.3 + 0.3 * (chosen == ON)).astype(np.float64)
    propensity = np.where(chosen == OTHER, 0.2, 0.4)
    return Log(random.integers(0, 3, n), np.arange(n), random.integers(1, longest + 1, n), chosen, outcome, propensity)


def test_a_client_sends_sums_and_counts_and_nothing_a_row_long() -> None:
    random = np.random.default_rng(0)
    rows = 777
    sent = send(random.random(rows), random.random(rows), random.integers(0, 90, rows))
    for field in (sent.totals, sent.squares):
        assert all(np.ndim(value) == 0 for value in field.values())
    assert {value.shape for value in sent.drawn.values()} == {(1000,)}
    assert sent.bins.shape == bin_edges().shape
    assert sent.bins.sum() == rows


def test_what_clients_send_adds_up_to_what_one_client_with_all_rows_would() -> None:
    random = np.random.default_rng(1)
    weight, outcome = random.random(600), random.random(600)
    apart = combine([send(weight[i::3], outcome[i::3], client=c) for i, c in enumerate(CLIENTS)])
    together = send(weight, outcome)
    assert apart.totals == pytest.approx(together.totals)
    assert apart.squares == pytest.approx(together.squares)
    assert apart.bins.tolist() == together.bins.tolist()


def test_a_draw_takes_whole_owners_and_recomputes_numerator_and_denominator() -> None:
    random = np.random.default_rng(2)
    weight, outcome, owner = random.random(50), random.random(50), random.integers(0, 7, 50)
    sent = send(weight, outcome, owner)
    copies = owner_draws(7, "c00")
    assert (copies.sum(axis=1) == 7).all()
    drawn = STEP_ESTIMATORS["snips"](sent.drawn)
    for draw in (0, 500, 999):
        rows = np.concatenate([np.tile(np.flatnonzero(owner == o), int(copies[draw, o])) for o in range(7)])
        assert drawn[draw] == pytest.approx((weight * outcome)[rows].sum() / weight[rows].sum(), rel=1e-12)


def test_clients_draw_apart_and_the_same_again() -> None:
    first = owner_draws(30, "c00")
    assert np.array_equal(first, owner_draws.__wrapped__(30, "c00"))
    assert not np.array_equal(first, owner_draws(30, "c01"))


def test_sums_by_owner_keep_further_axes() -> None:
    values = np.arange(12.0).reshape(4, 3)
    assert cluster_sums(values, np.array([9, 2, 9, 2])).tolist() == [[12, 14, 16], [6, 8, 10]]


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(estimator: str) -> None:
    """Rows of one owner are alike, so that an interval over rows would be far too narrow."""
    owners, rows, worlds = 150, 4, 200
    covered = 0
    for world in range(worlds):
        random = np.random.default_rng(world)
        level = np.repeat(random.normal(0.5, 0.2, owners), rows)
        taken = random.random(owners * rows) < 0.4
        outcome = level + random.normal(0, 0.05, owners * rows)
        weight = np.where(taken, 1 / 0.4, 0.0)
        owner = np.repeat(np.arange(owners), rows)
        halves = [(owner < 50, "c00"), (owner >= 50, "c01")]
        found = estimate(
            combine([send(weight[own], outcome[own], owner[own], name) for own, name in halves]), STEP_ESTIMATORS
        )[estimator]
        covered += found.lo <= 0.5 <= found.hi
    assert 0.9 <= covered / worlds <= 0.985


def test_an_interval_is_that_of_resampling_owners_one_by_one() -> None:
    random = np.random.default_rng(3)
    weight, outcome = random.random(200), random.random(200)
    draws = [resample(np.arange(200), random_state=i) for i in range(3000)]
    expected = np.quantile([(weight * outcome)[d].sum() / weight[d].sum() for d in draws], [0.025, 0.975])
    found = estimate(send(weight, outcome), STEP_ESTIMATORS)["snips"]
    assert [found.lo, found.hi] == pytest.approx(expected, abs=0.01)


WHOLE = Support(rows=500, matches=100, ess=80.0, largest_weight=10.0, clipped=0.0, one_outcome=False)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"rows": 0, "matches": 0}, "too_short"),
        ({"matches": 0}, "no_match"),
        ({"ess": 29.9}, "low_ess"),
        ({"clipped": 0.11}, "clipped"),
        ({"clipped": 0.1}, None),
        ({"one_outcome": True}, "no_outcome"),
    ],
)
def test_a_log_that_says_nothing_has_a_reason(changed: dict[str, float], reason: str | None) -> None:
    assert replace(WHOLE, **changed).reason == reason  # type: ignore[arg-type]


def test_effective_sample_size_largest_weight_and_outcomes_come_from_sums() -> None:
    weight = np.concatenate([np.full(40, 2.0), np.full(10, 5.0), np.zeros(50)])
    outcome = np.concatenate([np.ones(20), np.zeros(80)])
    found = support(send(weight, outcome))
    assert (found.rows, found.matches) == (100, 50)
    assert found.ess == pytest.approx(130**2 / (40 * 4 + 10 * 25))
    assert 5.0 <= found.largest_weight <= 5.0 * 2**0.25
    assert not found.one_outcome
    assert support(send(weight, np.ones(100))).one_outcome
    assert support(send(np.full(50, 20.0), outcome[:50]), bound=20.0).largest_weight == 20.0


def test_a_log_without_the_on_action_has_null_values_of_always_and_values_of_never() -> None:
    log = make_log()
    log = replace(log, chosen_NL=np.where(log.chosen_NL == ON, OTHER, log.chosen_NL))
    rows = step_rows(log, CLIENTS, "logged", np.full((900, 6, 2), 0.5), np.full((900, 6), 0.5))
    values = {row["condition"]: row for row in rows if row["metric"] == "value"}
    for name in ("ips", "snips", "dr", "sndr"):
        always = values[f"estimator={name},policy=always,propensity=logged,scope=step"]
        assert np.isnan(always["value"])
        assert always["reason"] == "no_match"
        assert values[f"estimator={name},policy=never,propensity=logged,scope=step"]["reason"] is None
    assert values["estimator=dm,policy=always,propensity=logged,scope=step"]["value"] == 0.5
    # Sequences have windows of 1 to 6 steps: in those of one step Early-on would need on, in longer ones too.
    assert values["estimator=ips,policy=mean,propensity=logged,scope=step"]["n"] == 3


def test_rows_fit_the_table_of_metrics_and_are_one_a_number() -> None:
    log = make_log()
    q, q_logged = np.full((900, 6, 2), 0.5), np.full((900, 6), 0.5)
    truth = {"never": 0.3, "always": 0.6, "early_on": 0.45, "late_on": 0.45}
    rows = step_rows(log, CLIENTS, "logged", q, q_logged, truth=truth)
    rows += step_rows(log, CLIENTS, "estimated", q, q_logged)
    v = {("never", steps): np.full((900, 6), 0.3) for steps in (1, 2, None)}
    rows += sequence_rows(log, CLIENTS, "logged", v, truth={1: truth})
    rows += log_rows(log, CLIENTS, truth=truth) + overlap_rows(np.full((900, 6, 2), 0.4), log, "logged")
    frame = METRICS.validate(as_metrics(rows, SPEC, "selected"))
    errors = frame[(frame["metric"] == "value_error") & frame["condition"].str.contains("estimator=snips")]
    assert (errors["value"] < 0.05).all()
    assert set(frame["horizon"]) == {"1", "2", "3", "5", "all"}


def test_sequences_shorter_than_the_horizon_are_left_out_and_none_at_all_is_too_short() -> None:
    log = make_log(longest=3)
    rows = sequence_rows(log, CLIENTS, "logged")
    of = {row["horizon"]: row for row in rows if row["metric"] == "value" and "ips,policy=never" in row["condition"]}
    assert of["3"]["n"] == (log.length_N == 3).sum()
    assert (of["5"]["n"], of["5"]["reason"]) == (0, "too_short")


def test_the_value_of_a_sampler_is_found_from_the_log_of_another() -> None:
    random = np.random.default_rng(9)
    rows, actions, places = 60_000, 10, 3
    chance = random.uniform(0.05, 0.3, actions)
    sampler = random.dirichlet(np.ones(actions), places)

    def serve(policy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        place = random.integers(0, places, rows)
        action = (random.random(rows)[:, None] > policy[place].cumsum(1)).sum(1).clip(max=actions - 1)
        return place, action, (random.random(rows) < chance[action]).astype(np.float64)

    place, action, outcome = serve(sampler)
    client, owner = np.arange(rows) % 3, np.arange(rows) // 10
    truth = on_policy_row("sampler", outcome, client, owner, CLIENTS)
    assert truth["lo"] < truth["value"] < truth["hi"]
    shares = action_shares(action, place, actions, places)
    assert shares == pytest.approx(sampler, abs=0.02)
    place, action, outcome = serve(np.full((places, actions), 1 / actions))
    target = shares[place, action]
    steps = PolicySteps(target, np.full(rows, 0.1), outcome, client, owner, None, None)
    under = {"scope": "step", "propensity": "logged", "policy": "sampler"}
    found, _ = policy_rows(steps, CLIENTS, under, truth["value"])
    errors = {row["condition"]: row["value"] for row in found if row["metric"] == "value_error"}
    assert max(errors.values()) < 0.01
    values = [row for row in found if row["metric"] == "value"]
    assert all(row["lo"] < truth["value"] < row["hi"] for row in values)


def test_never_needs_the_off_action_alone() -> None:
    log = make_log()
    log = replace(log, chosen_NL=np.full_like(log.chosen_NL, OFF))
    rows = step_rows(log, CLIENTS, "logged")
    reasons = {row["condition"].split(",")[1]: row["reason"] for row in rows if "estimator=ips" in row["condition"]}
    assert reasons == {
        "policy=never": None,
        "policy=always": "no_match",
        "policy=early_on": None,
        "policy=late_on": None,
        "policy=mean": None,
    }


def test_overlap_counts_every_step_once_for_each_anchor() -> None:
    log = make_log()
    rows = overlap_rows(np.random.default_rng(0).random((900, 6, 2)), log, "estimated")
    for anchor, number in (("off", OFF), ("on", ON)):
        counts = dict.fromkeys(("yes", "no"), 0)
        for row in rows:
            if f"anchor={anchor}" in row["condition"]:
                counts["yes" if "chosen=yes" in row["condition"] else "no"] += row["value"]
        inside = np.arange(6) < log.length_N[:, None]
        assert counts["yes"] == (log.chosen_NL == number)[inside].sum()
        assert sum(counts.values()) == inside.sum()
