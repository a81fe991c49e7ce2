"""How likely a client's own practice was to take off, on or something else: estimated propensities.

Three groups are enough, since other actions weigh nothing. Every client fits a multinomial logistic model to its own
training steps and calibrates it by one temperature on its own validation steps, so that nothing is sent, and sites that
choose differently are not averaged. The features (``feature_names``) are what was known when the action was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GROUPS = 3
GROUP_NAMES = ("off", "on", "other")
LEAST_ROWS = 30
"""A client with fewer training steps states the shares of its actions instead of fitting a model."""


@dataclass(frozen=True)
class History:
    """Sequences as they were logged: ``x_NX``, ``a_NLA``, ``chosen_NL`` (0 off, 1 on, 2 other), ``outcome_NL``.

    ``valid_NL`` says which steps there are, ``client_N`` whose they are, ``owner_N`` of whom they tell. Missing values
    of x and a may be NaN.
    """

    x_NX: Floats
    a_NLA: Floats
    chosen_NL: Ints
    outcome_NL: Floats
    valid_NL: Bools
    client_N: Ints
    owner_N: Ints

    def of(self, rows: Bools) -> History:
        """Return some of the sequences."""
        return History(**{name: values[rows] for name, values in vars(self).items()})


def feature_names(history: History) -> list[str]:
    """Return the names of the features, in order."""
    own = [f"x{i}" for i in range(history.x_NX.shape[1])] + [f"a{i}" for i in range(history.a_NLA.shape[2])]
    before = ["first step", "log step", "outcome before", "mean outcome so far"]
    return [*own, *before, *(f"{g} before" for g in GROUP_NAMES), *(f"share of {g} so far" for g in GROUP_NAMES[:2])]


def features(history: History) -> Floats:
    """Return what was known when each action was chosen: [N, L, F], a missing value as NaN.

    X, the context of the step, how many steps there were, the outcome and the action's group one step before, and the
    mean outcome (with one success and one failure added) and shares of off and on so far.
    """
    n, longest = history.chosen_NL.shape
    steps_L = np.arange(longest)
    taken_NLG = np.eye(GROUPS)[history.chosen_NL] * history.valid_NL[..., None]
    outcome_NL = np.where(history.valid_NL, history.outcome_NL, 0.0)
    past_NLG, past_NL = _before(taken_NLG.cumsum(axis=1)), _before(outcome_NL.cumsum(axis=1))
    signed_NL = _before(2 * outcome_NL - 1)
    counts = np.broadcast_to(steps_L, (n, longest))
    columns = [
        np.repeat(history.x_NX[:, None, :], longest, axis=1),
        history.a_NLA,
        (counts == 0)[..., None],
        np.log1p(counts)[..., None],
        signed_NL[..., None],
        ((1 + past_NL) / (2 + counts))[..., None],
        _before(taken_NLG),
        past_NLG[..., :2] / np.maximum(counts, 1)[..., None],
    ]
    return np.concatenate(columns, axis=2).astype(np.float64)


def estimate_propensities(train: History, validation: History, asked: History, clients: int) -> Floats:
    """Return the probabilities [N, L, 3] of off, on and other at every step of ``asked``, from its client's model.

    ``asked`` must not be among the sequences of ``train``.
    """
    found = np.full((*asked.chosen_NL.shape, GROUPS), np.nan)
    for client in range(clients):
        rows = asked.client_N == client
        if rows.any():
            model = _fit(train.of(train.client_N == client), validation.of(validation.client_N == client))
            found[rows] = model.probabilities(features(asked.of(rows)))
    return found


def of_chosen(probabilities_NLG: Floats, chosen_NL: Ints) -> Floats:
    """Return the probability [N, L] of the group that was chosen."""
    chosen: Floats = np.take_along_axis(probabilities_NLG, chosen_NL[..., None], axis=2)[..., 0]
    return chosen


@dataclass(frozen=True)
class _Model:
    """Affine logits of standardised features, divided by a temperature; one with all weights 0 states shares."""

    mean_F: Floats
    sd_F: Floats
    weight_GF: Floats
    bias_G: Floats
    temperature: float = 1.0

    def logits(self, features_RF: Floats) -> Floats:
        scaled = np.nan_to_num((features_RF - self.mean_F) / self.sd_F)
        found: Floats = scaled @ self.weight_GF.T + self.bias_G
        return found

    def probabilities(self, features_RF: Floats) -> Floats:
        return _softmax(self.logits(features_RF) / self.temperature)


def _fit(train: History, validation: History) -> _Model:
    rows_RF, chosen_R = features(train)[train.valid_NL], train.chosen_NL[train.valid_NL]
    width = len(feature_names(train))
    shares_G = (np.bincount(chosen_R, minlength=GROUPS) + 1) / (len(chosen_R) + GROUPS)
    plain = _Model(np.zeros(width), np.ones(width), np.zeros((GROUPS, width)), np.log(shares_G))
    groups = np.unique(chosen_R)
    if len(chosen_R) < LEAST_ROWS or len(groups) < 2:
        return plain
    mean_F, sd_F = _moments(rows_RF)
    fitted = LogisticRegression(max_iter=1000).fit(np.nan_to_num((rows_RF - mean_F) / sd_F), chosen_R)
    weight_GF, bias_G = np.zeros((GROUPS, width)), np.log(shares_G)
    if len(groups) == 2:
        # scikit-learn keeps one row of weights for two groups: the second against the first.
        weight_GF[groups[1]] = fitted.coef_[0]
        bias_G[groups[1]] = bias_G[groups[0]] + fitted.intercept_[0]
    else:
        weight_GF, bias_G = fitted.coef_, fitted.intercept_
    return _calibrated(_Model(mean_F, sd_F, weight_GF, bias_G), validation)


def _calibrated(model: _Model, validation: History) -> _Model:
    chosen_R = validation.chosen_NL[validation.valid_NL]
    if not len(chosen_R):
        return model
    logits_RG = model.logits(features(validation)[validation.valid_NL])

    def loss(log_temperature: float) -> float:
        probabilities = _softmax(logits_RG / np.exp(log_temperature))
        return float(-np.log(np.maximum(probabilities[np.arange(len(chosen_R)), chosen_R], 1e-12)).mean())

    best = minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded")
    return _Model(model.mean_F, model.sd_F, model.weight_GF, model.bias_G, float(np.exp(best.x)))


def _moments(rows_RF: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation by feature of the values that are there; the deviation of a constant counts as 1."""
    known = ~np.isnan(rows_RF)
    count_F = np.maximum(known.sum(axis=0), 1)
    mean_F = np.where(known, rows_RF, 0).sum(axis=0) / count_F
    sd_F = np.sqrt(np.where(known, (rows_RF - mean_F) ** 2, 0).sum(axis=0) / count_F)
    return mean_F, np.where(sd_F > 0, sd_F, 1.0)


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Floats = shifted / shifted.sum(axis=-1, keepdims=True)
    return found


def _before(values: Floats) -> Floats:
    """Values [N, L, ...] one step earlier, 0 at the first step."""
    return np.concatenate([np.zeros_like(values[:, :1]), values[:, :-1]], axis=1)
