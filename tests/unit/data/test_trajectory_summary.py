"""One row that says what a dataset is."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.data.trajectories.summary import describe
from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table


def test_sizes_shares_and_base_rates_are_those_of_the_steps() -> None:
    steps = Steps(
        start=np.array([0, 1, 4]),
        x=np.zeros((2, 1), np.float32),
        a=np.zeros((4, 2), np.float32),
        t=np.array([0, 2, 2, 1], np.int32),
        y=np.array([1, 0, 0, 0], np.float32),
        propensity=np.array([0.5, np.nan, 0.1, 0.2]),
    )
    about = {"longest": 3, "dx": 1, "da": 2, "actions": 4, "owners": 2, "other_action": 2}
    found = describe(TrajectorySet(trajectory_table([0, 1], ["a", "b"], steps), about))
    assert found == {
        "sequences": 2,
        "longest": 3,
        "dx": 1,
        "da": 2,
        "actions": 4,
        "owners": 2,
        "steps": 4,
        "mean_length": 2,
        "single_step_share": 0.5,
        "actions_used": 3,
        "commonest_share": 0.25,
        "second_share": 0.25,
        "mean_outcome": 0.25,
        "base_rate_rmse": pytest.approx(np.sqrt(0.25 * 0.75)),
        "known_propensity_share": 0.75,
    }
