"""Trajectories become a log: anchors are told apart, padding belongs to nobody."""

from __future__ import annotations

import numpy as np

from fedloom.data.trajectories.table import Padded
from fedloom.evaluation.causal.anchors import estimated_log, groups, history_of
from fedloom.evaluation.offpolicy.rows import step_rows

ANCHORS = {"off": 3, "on": 0}
PADDING = 5


def padded() -> Padded:
    """Return two sequences, of three steps and of one."""
    t = np.array([[3, 0, 4], [0, PADDING, PADDING]])
    mask = t != PADDING
    x, a = np.zeros((2, 2), np.float32), np.zeros((2, 3, 1), np.float32)
    return Padded(x, a, t, np.array([[1, 0, 1], [1, 0, 0]], np.float32), np.where(mask, 0.5, np.nan), mask)


def test_actions_are_off_on_or_other() -> None:
    assert groups(padded().t, ANCHORS).tolist() == [[0, 1, 2], [1, 2, 2]]


def test_padding_is_no_step_of_the_log() -> None:
    history = history_of(padded(), np.zeros(2, np.int64), np.arange(2), ANCHORS)
    log = estimated_log(history, np.full((2, 3, 3), 1 / 3))
    assert log.length_N.tolist() == [3, 1]
    rows = step_rows(log, ["c00"], "estimated")
    matches = {row["condition"]: (row["value"], row["n"]) for row in rows if row["metric"] == "matches"}
    assert matches["policy=always,propensity=estimated,scope=step"] == (2, 4)
    assert matches["policy=never,propensity=estimated,scope=step"] == (1, 4)
