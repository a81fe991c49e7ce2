"""Value of a policy that chooses at random among many actions, from the log of another: Open Bandit's own comparison.

Its Thompson sampler and its uniform policy served the same pages in the same week, so that the value of the first,
estimated from the log of the second, can be set against what the first really earned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.estimate import estimate, support
from fedloom.evaluation.offpolicy.rows import bin_rows, estimate_rows, gather, support_rows
from fedloom.evaluation.offpolicy.steps import STEP_ESTIMATORS, step_terms
from fedloom.evaluation.offpolicy.weights import CLIPPING, weigh

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def action_shares(action_R: Ints, place_R: Ints, actions: int, places: int) -> Floats:
    """Return how often a policy took each action at each place: [places, actions], rows summing to 1.

    For a policy that does not look at the user, such as a Bernoulli Thompson sampler, these are its probabilities,
    averaged over the time of the log. ``place_R`` is where on the page a row was shown.
    """
    counts = np.zeros((places, actions))
    np.add.at(counts, (place_R, action_R), 1.0)
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares


def stochastic_rows(
    named: dict[str, str],
    target_R: Floats,
    propensity_R: Floats,
    outcome_R: Floats,
    client_R: Ints,
    owner_R: Ints,
    clients: Sequence[str],
    q_target_R: Floats | None = None,
    q_logged_R: Floats | None = None,
    truth: float | None = None,
) -> list[dict[str, Any]]:
    """Return metric rows of every step estimator for a target that takes the logged action with ``target_R``.

    ``named`` is what rows say of the target: its name as ``policy``, and whatever tells these rows from others.
    ``q_target_R`` is the model's expected outcome under the target, Σ_a π(a) q̂(H, a); ``q_logged_R`` of the logged
    action. ``truth`` is the target's mean outcome in its own log.
    """
    weights = weigh(target_R, propensity_R, CLIPPING["logged"])
    terms = step_terms(weights.weight, outcome_R, q_target_R, q_logged_R)
    sent = gather(terms, outcome_R, weights, client_R, owner_R, clients)
    under = {"scope": "step", "propensity": "logged", **named}
    found = support(sent, weights.bound)
    rows = support_rows(found, under) + bin_rows(sent, under)
    return rows + estimate_rows(estimate(sent, STEP_ESTIMATORS), found, under, truth=truth)
