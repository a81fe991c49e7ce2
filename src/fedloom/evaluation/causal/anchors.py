"""From padded trajectories and their partition to what effects, propensities and off-policy values are made from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedloom.data.trajectories.table import Padded
from fedloom.evaluation.causal.propensity import History, of_chosen
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import OFF, ON, OTHER

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def groups(t_NL: Ints, anchors: Mapping[str, int]) -> Ints:
    """Return the group of every action [N, L]: 0 the anchor off, 1 the anchor on, 2 anything else, padding too."""
    return np.where(t_NL == anchors["off"], OFF, np.where(t_NL == anchors["on"], ON, OTHER)).astype(np.int64)


def history_of(padded: Padded, client_N: Ints, owner_N: Ints, anchors: Mapping[str, int]) -> History:
    """Return the sequences as propensities are estimated from them; ``client_N`` and ``owner_N`` are numbers."""
    chosen_NL = groups(padded.t, anchors)
    x_NX, a_NLA = padded.x.astype(np.float64), padded.a.astype(np.float64)
    return History(x_NX, a_NLA, chosen_NL, padded.y.astype(np.float64), padded.mask, client_N, owner_N)


def log_of(history: History, propensity_NL: Floats) -> Log:
    """Return the sequences as off-policy values are estimated from them, with the propensity of what was chosen."""
    length_N = history.valid_NL.sum(axis=1).astype(np.int64)
    chosen_NL, outcome_NL = history.chosen_NL, history.outcome_NL
    return Log(history.client_N, history.owner_N, length_N, chosen_NL, outcome_NL, propensity_NL)


def estimated_log(history: History, probability_NLG: Floats) -> Log:
    """Return the log with estimated propensities [N, L, 3] of off, on and other."""
    return log_of(history, of_chosen(probability_NLG, history.chosen_NL))
