"""A dataset of trajectories in one row: the sizes of the paper's Table I, and the rates any model must be held to."""

from __future__ import annotations

import math

import numpy as np

from fedloom.data.trajectories.table import TrajectorySet, flat_steps


def describe(data: TrajectorySet) -> dict[str, float]:
    """Sizes and base rates of ``data``, by name.

    sequences, longest, dx, da, actions (as published: ``|T|``), owners, steps; mean_length; single_step_share (of
    sequences: in those, Early-on is Always); actions_used; commonest_share and second_share (of steps: the two
    commonest actions that are not "other"); mean_outcome; base_rate_rmse (error of predicting the mean for every
    step; predicting one half errs by 0.5 where outcomes are 0 or 1); known_propensity_share (of steps).
    """
    about, steps = data.about, flat_steps(data)
    seen = np.bincount(steps.t, minlength=about["actions"]).astype(float)
    used = int((seen > 0).sum())
    if about["other_action"] is not None:
        seen[about["other_action"]] = 0
    commonest = np.sort(np.r_[0.0, seen])[::-1] / len(steps.t)
    mean = float(steps.y.mean(dtype=np.float64))
    return {
        "sequences": len(data.table),
        "longest": about["longest"],
        "dx": about["dx"],
        "da": about["da"],
        "actions": about["actions"],
        "owners": about["owners"],
        "steps": len(steps.t),
        "mean_length": len(steps.t) / len(data.table),
        "single_step_share": float((steps.length == 1).mean()),
        "actions_used": used,
        "commonest_share": float(commonest[0]),
        "second_share": float(commonest[1]),
        "mean_outcome": mean,
        "base_rate_rmse": math.sqrt(float(((steps.y.astype(np.float64) - mean) ** 2).mean())),
        "known_propensity_share": float((~np.isnan(steps.propensity)).mean()),
    }
