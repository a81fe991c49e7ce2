"""Trajectories become a log: anchors are told apart, padding belongs to nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.offpolicy.policies import groups
from fedloom.evaluation.offpolicy.rows import step_rows
from fedloom.federation.tasks.trajectory import Trajectories

OFF, ON, PADDING = 3, 0, 5


def part() -> Part:
    """Return two sequences, of three steps and of one."""
    task: Any = SimpleNamespace(anchors=(OFF, ON), x_categories=(3,))
    t = torch.tensor([[OFF, ON, 4], [ON, PADDING, PADDING]])
    mask = (t != PADDING).float()
    y = torch.tensor([[1.0, 0, 1], [1, 0, 0]])
    arrays = Trajectories(torch.zeros(2, 2), torch.tensor([[1], [2]]), torch.zeros(2, 3, 1), t, y, mask, torch.ones(2))
    return Part(task, "test", np.arange(2), np.zeros(2, np.int64), np.arange(2), None, arrays)


def test_actions_are_off_on_or_other() -> None:
    assert groups(np.array([[3, 0, 4]]), OFF, ON).tolist() == [[0, 1, 2]]
    assert part().chosen.tolist() == [[0, 1, 2], [1, 2, 2]]


def test_padding_is_no_step_of_the_log() -> None:
    log = part().log(np.full((2, 3), 1 / 3))
    assert log.length_N.tolist() == [3, 1]
    rows = step_rows(log, ["c00"], "estimated")
    matches = {row["condition"]: (row["value"], row["n"]) for row in rows if row["metric"] == "matches"}
    assert matches["policy=always,propensity=estimated,scope=step"] == (2, 4)
    assert matches["policy=never,propensity=estimated,scope=step"] == (1, 4)


def test_categories_of_static_features_become_columns_of_their_own() -> None:
    assert part().history().x_NX.tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
