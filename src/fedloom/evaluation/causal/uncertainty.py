"""How much numbers depend on which clients took part: a bootstrap over clients, one set of draws for all runs.

Clients differ, and what one client's sequences say goes together, so that whole clients are drawn with replacement. A
number is computed anew from every draw's clients: its interval is the middle 95 % of these, widened to hold the number
itself where that lies outside (an absolute error near 0 does). The draws are kept beside the numbers, so that a table
over several seeds can draw seeds too: draw r holds the same clients in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.estimate import interval
from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.evaluation.rows import DRAWN, Row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS, SEED = 1000, 0


@lru_cache(maxsize=8)
def client_draws(clients: int) -> Floats:
    """Return how often each client is in each draw: [DRAWS, clients]."""
    random = np.random.default_rng([SEED, clients])
    taken_RC = random.integers(0, clients, (DRAWS, clients)) + clients * np.arange(DRAWS)[:, None]
    return np.bincount(taken_RC.ravel(), minlength=DRAWS * clients).reshape(DRAWS, clients).astype(np.float64)


@dataclass(frozen=True)
class Owned:
    """Which of ``clients`` clients holds each of U units."""

    client_U: Ints
    clients: int

    def sums(self, values_U: Floats) -> Floats:
        """Return sums over units in every draw of clients, [DRAWS]."""
        by_client = np.bincount(self.client_U, values_U, self.clients)
        sums: Floats = client_draws(self.clients) @ by_client
        return sums

    def means(self, values_U: Floats) -> Floats:
        """Return means over units in every draw of clients, [DRAWS]; NaN where it holds no unit."""
        count_R = self.sums(np.ones(len(values_U)))
        found: Floats = np.divide(self.sums(values_U), count_R, out=np.full(DRAWS, np.nan), where=count_R > 0)
        return found


def effect_draws(estimate_U: Floats, truth_U: Floats, owned: Owned) -> dict[str, Floats]:
    """Return draws of the errors of effects by metric."""
    error_U = estimate_U - truth_U
    mse_R = owned.means(error_U**2)
    return {"pehe_mse": mse_R, "pehe_root": np.sqrt(mse_R), "ate_error": np.abs(owned.means(error_U))}


def value_draws(value_PU: Floats, truth_PU: Floats, owned: Owned) -> dict[tuple[str, str], Floats]:
    """Return draws of the values of the four policies, of their errors and of these errors' mean.

    By metric and policy; the mean is of policy ``mean``.
    """
    found: dict[tuple[str, str], Floats] = {}
    errors = []
    for policy, value_U, truth_U in zip(POLICIES, value_PU, truth_PU, strict=True):
        errors.append(np.abs(owned.means(value_U - truth_U)))
        found |= {("value", policy): owned.means(value_U), ("value_error", policy): errors[-1]}
    return found | {("value_error", "mean"): np.mean(errors, axis=0)}


def auc_draws(prediction_R: Floats, outcome_R: Floats, owned: Owned) -> Floats:
    """Return draws of the AUC of all drawn clients' rows together; NaN where those hold one class.

    A pair of rows counts as often as both its clients are drawn together, so that the wins of each client's positives
    over each client's negatives are all that draws need.
    """
    positive_R, clients = outcome_R > 0.5, range(owned.clients)
    ups = [prediction_R[positive_R & (owned.client_U == c)] for c in clients]
    downs = [np.sort(prediction_R[~positive_R & (owned.client_U == c)]) for c in clients]
    wins = np.array([[_wins(up, down) for down in downs] for up in ups])
    copies_RC = client_draws(owned.clients)
    pairs_R = (copies_RC @ [len(up) for up in ups]) * (copies_RC @ [len(down) for down in downs])
    won_R = np.einsum("rc,cd,rd->r", copies_RC, wins, copies_RC)
    found: Floats = np.divide(won_R, pairs_R, out=np.full(DRAWS, np.nan), where=pairs_R > 0)
    return found


def with_draws(row: Row, drawn_R: Floats) -> Row:
    """Return the row with the interval of these draws, and them; unchanged where it or all of them are null."""
    if np.isnan(row["value"]) or np.isnan(drawn_R).all():
        return row
    lo, hi = bounds(drawn_R, row["value"])
    return row | {"lo": lo, "hi": hi, DRAWN: drawn_R}


def bounds(drawn_R: Floats, value: float) -> tuple[float, float]:
    """Return the interval of draws around a value; a draw that is NaN says nothing."""
    lo, hi = interval(drawn_R)
    return min(lo, value), max(hi, value)


def attached(rows: Iterable[Row], drawn: Mapping[tuple[str, str], Floats]) -> list[Row]:
    """Return the rows, those with draws by metric and condition with them and their intervals."""
    return [
        with_draws(row, drawn[row["metric"], row["condition"]]) if (row["metric"], row["condition"]) in drawn else row
        for row in rows
    ]


def _wins(up: Floats, down: Floats) -> float:
    """How many pairs the positives win, a tie counting half; negatives in ascending order."""
    below, upto = (np.searchsorted(down, up, side) for side in ("left", "right"))
    return float((below + upto).sum() / 2)
