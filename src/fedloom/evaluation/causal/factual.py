"""How well a model foretells the outcomes that were observed: AUC and RMSE, beside two constant predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedloom.evaluation.causal.uncertainty import DRAWS, Owned, auc_draws, client_draws, with_draws
from fedloom.evaluation.rows import Row, condition, mean_row, row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SINGLE_CLASS = "single_class"
NOTHING = "no valid step"


def auc(prediction_R: Floats, outcome_R: Floats) -> float:
    """Return the probability that a positive is ranked above a negative, ties counting half; NaN for one class."""
    positive = outcome_R > 0.5
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    ranks = rankdata(prediction_R)[positive].sum()
    return float((ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def rmse(prediction_R: Floats, outcome_R: Floats) -> float:
    """Return the root of the mean squared error, of 0/1 outcomes the root of the Brier score; NaN without rows."""
    return float(np.sqrt(np.mean((prediction_R - outcome_R) ** 2))) if len(outcome_R) else float("nan")


def prediction_rows(
    prediction_R: Floats, outcome_R: Floats, client_R: Ints, clients: Sequence[str], prefix: str = "", under: str = ""
) -> list[Row]:
    """Return rows ``auc`` and ``rmse`` of every client, and, with bootstrap draws of clients, pooled and as their mean.

    ``prediction_R`` is the probability given to each of R valid steps, ``outcome_R`` what happened, ``client_R`` whose
    step it was. ``prefix`` goes before the metric's name, ``under`` is the rows' condition.
    """
    rows, owned = [], Owned(client_R, len(clients))
    pooled_draws = {"auc": auc_draws(prediction_R, outcome_R, owned)}
    pooled_draws["rmse"] = np.sqrt(owned.means((prediction_R - outcome_R) ** 2))
    for metric, score in (("auc", auc), ("rmse", rmse)):
        name = prefix + metric
        values = []
        for number, client in enumerate(clients):
            own = client_R == number
            value = score(prediction_R[own], outcome_R[own])
            values.append(value)
            rows.append(row(name, value, own.sum(), under, unit=client, reason=_reason(value, own.sum())))
        pooled = score(prediction_R, outcome_R)
        whole = row(name, pooled, len(outcome_R), under, reason=_reason(pooled, len(outcome_R)))
        rows.append(with_draws(whole, pooled_draws[metric]))
        rows.append(with_draws(mean_row(name, values, under, SINGLE_CLASS), _mean_draws(np.array(values))))
    return rows


def factual_rows(
    prediction_R: Floats, outcome_R: Floats, client_R: Ints, clients: Sequence[str], base_rate: float, prefix: str = ""
) -> list[Row]:
    """Return the rows of a model and of two constants: one half, and ``base_rate``, the mean outcome in training."""
    known = {None: prediction_R, "half": np.full_like(outcome_R, 0.5), "base_rate": np.full_like(outcome_R, base_rate)}
    return [
        each
        for name, values_R in known.items()
        for each in prediction_rows(values_R, outcome_R, client_R, clients, prefix, condition(prediction=name))
    ]


def _mean_draws(values_C: Floats) -> Floats:
    """Means over the clients of every draw that have a value; NaN in a draw without any."""
    known = ~np.isnan(values_C)
    copies_RC = client_draws(len(values_C))[:, known]
    count_R = copies_RC.sum(axis=1)
    found: Floats = np.divide(copies_RC @ values_C[known], count_R, out=np.full(DRAWS, np.nan), where=count_R > 0)
    return found


def _reason(value: float, n: int) -> str | None:
    if not np.isnan(value):
        return None
    return SINGLE_CLASS if n else NOTHING
