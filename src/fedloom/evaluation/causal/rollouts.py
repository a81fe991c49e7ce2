"""What a model believes a policy will earn from any step of a logged window on: V̂(H_t), by its own simulations.

Per-decision DR (Jiang and Li 2016) reads V̂ only where a sequence followed the policy up to the step before, which few
do for long: most of the work is V̂ of the windows' first step, which is also what DM is the mean of. Where fewer follow
than an estimate needs, DR is null whatever V̂ is, and nothing is simulated. Where policies of several windows take the
same actions one simulation serves all of them, each window reading as far as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.estimate import LEAST_ESS
from fedloom.evaluation.offpolicy.log import Log, window
from fedloom.evaluation.offpolicy.policies import POLICIES, Policy, plan
from fedloom.evaluation.offpolicy.rows import HORIZONS
from fedloom.federation.worlds import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Wanted = tuple[Policy, int | None]

DRAWS = 1
"""Simulations of a sequence: estimates are means over sequences, and their intervals hold the noise of a draw too."""

SINGLE: dict[Policy, Policy] = {"early_on": "always", "late_on": "never"}
"""What a policy is in a window of one step."""


@dataclass(frozen=True)
class Course:
    """One plan a sequence, and the windows that read its simulation.

    plan_NW: anchor (0 off, 1 on) by step. width_N: steps that are simulated, 0 for a sequence without that window.
    wanted: policy and horizon -> width of that window of every sequence [N], 0 where it has none.
    """

    plan_NW: Ints
    width_N: Ints
    wanted: Mapping[Wanted, Ints]

    def reached(self, chosen_NW: Ints) -> Bools:
        """Where a sequence is inside the window and followed the plan up to the step before, [N, W].

        Where too few followed to their ends, nowhere in a step that too few came to; the first step needs no following.
        """
        followed = np.logical_and.accumulate(chosen_NW == self.plan_NW, axis=1)
        before = np.concatenate([np.ones_like(followed[:, :1]), followed[:, :-1]], axis=1)
        inside = np.arange(self.plan_NW.shape[1]) < self.width_N[:, None]
        reached = np.asarray(before & inside)
        # Windows of unequal length: a late step of few sequences still counts where enough followed to their own ends.
        if ((followed | ~inside).all(axis=1) & (self.width_N > 0)).sum() < LEAST_ESS:
            reached[:, 1:] &= reached[:, 1:].sum(axis=0) >= LEAST_ESS
        return reached


def courses(log: Log, first: int) -> list[Course]:
    """Return what must be simulated for every policy and horizon in windows from step ``first`` on."""
    widths: dict[int | None, Ints] = {}
    for steps in HORIZONS:
        part = window(log, first, steps)
        widths[steps] = np.zeros(len(log.length_N), dtype=np.int64)
        widths[steps][part.row_S] = part.width_S
    longest = int(max(1, widths[None].max()))
    found = []
    for policy in POLICIES:
        if policy in SINGLE:
            for steps in [steps for steps in HORIZONS if steps != 1]:
                own = plan(policy, widths[steps], longest)
                found.append(Course(own, widths[steps], {(policy, steps): widths[steps]}))
        else:
            wanted: dict[Wanted, Ints] = {(policy, steps): widths[steps] for steps in HORIZONS}
            wanted |= {(p, 1): widths[1] for p, same in SINGLE.items() if same == policy}
            found.append(Course(plan(policy, widths[None], longest), widths[None], wanted))
    return found


def window_values(world: World, log: Log, at_N: Ints, first: int) -> dict[Wanted, Floats]:
    """Return V̂(H_t) [N, W] by policy and horizon, as ``sequence_rows`` takes it: sums of rewards y / W from t on.

    ``at_N`` is where the log's sequences, of the test part, are in the task's arrays. NaN where a sequence has left the
    policy, or has not that many steps, or where too few came that far.
    """
    asked = courses(log, first)
    longest = asked[0].plan_NW.shape[1]
    chosen_NW = log.chosen_NL[:, first : first + longest]
    reached = [course.reached(chosen_NW) for course in asked]
    values = {wanted: np.full((len(at_N), longest), np.nan) for course in asked for wanted in course.wanted}
    for t in range(longest):
        rows = [np.flatnonzero(reached_NW[:, t]) for reached_NW in reached]
        if not sum(map(len, rows)):
            break
        plans = np.concatenate([course.plan_NW[own, t:] for course, own in zip(asked, rows, strict=True)])
        left = np.concatenate([course.width_N[own] - t for course, own in zip(asked, rows, strict=True)])
        at, actions = at_N[np.concatenate(rows)], np.asarray(world.task.anchors)[plans]
        at_I, plans_IW, width_I = (torch.from_numpy(each).to(world.task.device) for each in (at, actions, left))
        chance = world.courses("test", at_I, plans_IW, width_I, first + t, DRAWS).double().cpu().numpy()
        earned = np.split(np.nancumsum(chance, axis=1), np.cumsum([len(own) for own in rows])[:-1])
        for course, own, sums in zip(asked, rows, earned, strict=True):
            for wanted, width_N in course.wanted.items():
                inside = width_N[own] > t
                width = width_N[own][inside]
                values[wanted][own[inside], t] = sums[inside, width - t - 1] / width
    return values
