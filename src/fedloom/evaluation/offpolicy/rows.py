"""Metric rows of off-policy values: every policy and estimator with interval, support and, where known, error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.bounds import bound_rows
from fedloom.evaluation.offpolicy.estimate import Estimate, Support, estimate, interval, support
from fedloom.evaluation.offpolicy.federated import Upload, bin_edges, combine, upload
from fedloom.evaluation.offpolicy.log import Log, Window, window
from fedloom.evaluation.offpolicy.policies import POLICIES, Policy, plan
from fedloom.evaluation.offpolicy.sequences import SEQUENCE_ESTIMATORS, follow, sequence_terms
from fedloom.evaluation.offpolicy.steps import STEP_ESTIMATORS, Sums, step_terms
from fedloom.evaluation.offpolicy.weights import CLIPPING, Weights, weigh
from fedloom.evaluation.rows import DRAWN, Row, condition, mean_row, row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Truth = Mapping[Policy, float]

HORIZONS: tuple[int | None, ...] = (1, 2, 3, 5, None)
"""Lengths of the windows that sequence estimators are made for; None is each sequence to its end."""

OVERLAP_BINS = 20


@dataclass(frozen=True)
class PolicySteps:
    """R logged steps as a policy's value is estimated from them.

    target_R: the policy's probability of the logged action (1 or 0 for a deterministic one). propensity_R: the logged
    policy's. outcome_R: what followed. client_R, owner_R: whose step it was. q_target_R and q_logged_R: the model's
    expected outcome under the policy and of the logged action; None without a model.
    """

    target_R: Floats
    propensity_R: Floats
    outcome_R: Floats
    client_R: Ints
    owner_R: Ints
    q_target_R: Floats | None
    q_logged_R: Floats | None


def policy_rows(
    steps: PolicySteps, clients: Sequence[str], under: Mapping[str, str], truth: float | None
) -> tuple[list[Row], dict[str, Estimate]]:
    """Return the rows of a policy's value by every step estimator, and the estimates.

    ``under`` is what the rows say of it, among that ``propensity``, where propensities come from (``logged``,
    ``estimated``). With a ``truth`` there are rows of the error too.
    """
    weights = weigh(steps.target_R, steps.propensity_R, CLIPPING[under["propensity"]])
    terms = step_terms(weights.weight, steps.outcome_R, steps.q_target_R, steps.q_logged_R)
    sent = gather(terms, steps.outcome_R, weights, steps.client_R, steps.owner_R, clients)
    backed, found = support(sent, weights.bound), estimate(sent, STEP_ESTIMATORS)
    rows = support_rows(backed, under) + bin_rows(sent, under) + bound_rows(sent, backed, "wy", under)
    return rows + estimate_rows(found, backed, under, truth=truth), found


def step_rows(
    log: Log,
    clients: Sequence[str],
    propensity: str,
    q_NLA: Floats | None = None,
    q_logged_NL: Floats | None = None,
    truth: Truth | None = None,
) -> list[Row]:
    """Return metric rows of the step estimators of the four policies.

    ``clients`` names the clients that ``log`` numbers; ``propensity`` says which ones the log holds. ``q_NLA``
    [N, L, 2] is the model's expected outcome of off and on at the logged histories, ``q_logged_NL`` of the logged
    action. ``truth`` is the true value by policy.
    """
    part = window(log)
    inside = part.inside_SW
    rows: list[Row] = []
    values: dict[Policy, dict[str, Estimate]] = {}
    for policy in POLICIES:
        chosen_SW = plan(policy, part.width_S, inside.shape[1])
        target_R = (part.chosen_SW == chosen_SW)[inside].astype(np.float64)
        q_target_R = q_logged_R = None
        if q_NLA is not None and q_logged_NL is not None:
            q_SW = np.take_along_axis(part.cut(q_NLA, 0), chosen_SW[..., None], axis=2)[..., 0]
            q_target_R, q_logged_R = q_SW[inside], part.cut(q_logged_NL, 0)[inside]
        seen = part.propensity_SW[inside], part.outcome_SW[inside], *_owners(part)
        under = {"scope": "step", "policy": policy, "propensity": propensity}
        steps = PolicySteps(target_R, *seen, q_target_R, q_logged_R)
        found, values[policy] = policy_rows(steps, clients, under, None if truth is None else truth[policy])
        rows += found
    return rows + mean_rows(values, {"scope": "step", "propensity": propensity})


def sequence_rows(
    log: Log,
    clients: Sequence[str],
    propensity: str,
    values_NW: Mapping[tuple[Policy, int | None], Floats] | None = None,
    first: int = 0,
    truth: Mapping[int | None, Truth] | None = None,
) -> list[Row]:
    """Return metric rows of the sequence estimators in windows from step ``first`` (from 0), a set a horizon.

    ``values_NW`` holds, by policy and horizon, the model's V̂(H_t) as ``sequence_terms`` reads it, with a row for every
    sequence of ``log`` and the steps from ``first`` on in columns. ``truth`` is the true value by horizon and policy.
    """
    rows: list[Row] = []
    for steps in HORIZONS:
        part = window(log, first, steps)
        horizon = "all" if steps is None else str(steps)
        values: dict[Policy, dict[str, Estimate]] = {}
        for policy in POLICIES:
            followed = follow(part, policy, CLIPPING[propensity])
            model = None if values_NW is None else values_NW.get((policy, steps))
            terms = sequence_terms(followed, None if model is None else part.cut(model, 0))
            weights = Weights(followed.weight_S, followed.clipped_S)
            sent = gather(terms, followed.reward_SW.sum(axis=1), weights, part.client_S, part.owner_S, clients)
            under = {"scope": "window", "policy": policy, "propensity": propensity}
            backed = support(sent)
            known = None if truth is None or steps not in truth else truth[steps][policy]
            values[policy] = estimate(sent, SEQUENCE_ESTIMATORS)
            rows += support_rows(backed, under, horizon) + bound_rows(sent, backed, "wg", under, horizon)
            rows += estimate_rows(values[policy], backed, under, horizon, known)
        rows += mean_rows(values, {"scope": "window", "propensity": propensity}, horizon)
    return rows


def log_rows(log: Log, clients: Sequence[str], truth: Truth | None = None) -> list[Row]:
    """Return what estimates are read beside: what the logged policy earned, and the truth."""
    part = window(log)
    outcome_R = part.outcome_SW[part.inside_SW]
    rows = [on_policy_row("logged", outcome_R, *_owners(part), clients)]
    for policy, value in (truth or {}).items():
        under = condition(scope="step", policy=policy, prediction="truth")
        rows.append(row("value", value, len(outcome_R), under))
    return rows


def on_policy_row(policy: str, outcome_R: Floats, client_R: Ints, owner_R: Ints, clients: Sequence[str]) -> Row:
    """Return the row of what a policy earned in its own log: mean outcome with the interval that estimates have."""
    alike = Weights(np.ones_like(outcome_R), np.zeros(len(outcome_R), dtype=bool))
    sent = gather(step_terms(alike.weight, outcome_R), outcome_R, alike, client_R, owner_R, clients)
    mean = STEP_ESTIMATORS["ips"]
    lo, hi = interval(mean(sent.drawn))
    under = condition(scope="step", policy=policy, estimator="on_policy")
    return row("value", float(mean(sent.totals)), len(outcome_R), under, lo=lo, hi=hi)


def overlap_rows(probability_NLA: Floats, log: Log, propensity: str) -> list[Row]:
    """Return rows ``propensity_count``: on how many steps an anchor's probability was at most ``upto``.

    ``probability_NLA`` [N, L, 2] holds the probabilities of off and on. Counted apart are steps where the anchor was
    chosen and where it was not: without overlap of the two, weights have nothing to work with.
    """
    inside = window(log).inside_SW
    edges = np.linspace(0, 1, OVERLAP_BINS + 1)
    rows = []
    for number, anchor in enumerate(("off", "on")):
        values = probability_NLA[:, : inside.shape[1], number][inside]
        chosen = log.chosen_NL[:, : inside.shape[1]][inside] == number
        for name, part in (("yes", values[chosen]), ("no", values[~chosen])):
            for edge, count in zip(edges[1:], np.histogram(part, edges)[0], strict=True):
                under = condition(anchor=anchor, chosen=name, propensity=propensity, upto=f"{edge:.2f}")
                rows.append(row("propensity_count", count, len(part), under))
    return rows


def gather(
    terms: Sums, outcome_R: Floats, weights: Weights, client_R: Ints, owner_R: Ints, clients: Sequence[str]
) -> Upload:
    """Let every client sum its own rows, and add up what they send."""
    sent = []
    for number, name in enumerate(clients):
        own_R = client_R == number
        own = {term: values[own_R] for term, values in terms.items()}
        sent.append(upload(own, outcome_R[own_R], weights.clipped[own_R], owner_R[own_R], name))
    return combine(sent)


def support_rows(found: Support, under: Mapping[str, str], horizon: str = "all") -> list[Row]:
    """Return rows ``matches``, ``ess``, ``max_weight`` and ``clipped_share`` of one policy."""
    numbers = {"matches": found.matches, "ess": found.ess, "max_weight": found.largest_weight}
    numbers["clipped_share"] = found.clipped
    return [row(name, value, found.rows, condition(**under), horizon=horizon) for name, value in numbers.items()]


def bin_rows(sent: Upload, under: Mapping[str, str]) -> list[Row]:
    """Return rows ``weight_count``: matching rows whose weight is at most ``upto`` and above the bin before."""
    filled = np.flatnonzero(sent.bins)
    edges = [f"{edge:.3f}" for edge in bin_edges()[filled]]
    total = int(sent.bins.sum())
    return [
        row("weight_count", int(sent.bins[i]), total, condition(**under, upto=edge))
        for i, edge in zip(filled, edges, strict=True)
    ]


def estimate_rows(
    found: Mapping[str, Estimate],
    backed: Support,
    under: Mapping[str, str],
    horizon: str = "all",
    truth: float | None = None,
) -> list[Row]:
    """Return rows ``value`` of every estimator, with interval or reason, and ``value_error`` where ``truth`` is."""
    rows = []
    for name, each in found.items():
        of = condition(**under, estimator=name)
        n = backed.rows
        value = row("value", each.value, n, of, horizon=horizon, lo=each.lo, hi=each.hi, reason=each.reason)
        rows.append(value if each.drawn is None else value | {DRAWN: each.drawn})
        if truth is not None:
            rows.append(row("value_error", abs(each.value - truth), n, of, horizon=horizon, reason=each.reason))
    return rows


def mean_rows(
    values: Mapping[Policy, Mapping[str, Estimate]], under: Mapping[str, str], horizon: str = "all"
) -> list[Row]:
    """Return rows ``value`` of the mean over policies that have one; ``n`` says how many those are."""
    rows = []
    for name in dict.fromkeys(name for found in values.values() for name in found):
        known = [found[name].value for found in values.values() if name in found and found[name].reason is None]
        of = condition(**under, estimator=name, policy="mean")
        rows.append(mean_row("value", known, of, "no policy", unit="pooled", horizon=horizon))
    return rows


def _owners(part: Window) -> tuple[Ints, Ints]:
    """Client and owner of every step inside the window."""
    shape = part.inside_SW.shape
    client_SW = np.broadcast_to(part.client_S[:, None], shape)
    owner_SW = np.broadcast_to(part.owner_S[:, None], shape)
    return client_SW[part.inside_SW], owner_SW[part.inside_SW]
