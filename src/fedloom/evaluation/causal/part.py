"""One part of a log of trajectories as effects, propensities, off-policy values and predictors read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from fedloom.data.trajectories.table import TrajectorySet
from fedloom.evaluation.causal.propensity import History
from fedloom.evaluation.causal.utility import Sequences
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import groups
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.federation.worlds import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """The n sequences of one part of a task, client by client.

    at [n]: positions in the task's arrays. client [n] and owner [n]: numbers of who holds a sequence, and of whom it
    tells. propensity [n, L]: that of the logged action, 1 beyond a sequence's end; None where the log does not say.
    """

    task: TrajectoryTask
    name: str
    at: Ints
    client: Ints
    owner: Ints
    propensity: Floats | None
    arrays: Trajectories

    @classmethod
    def of(cls, task: TrajectoryTask, data: TrajectorySet, name: str) -> Part:
        """The part called ``name`` of the task that was made from ``data``."""
        members = task.rows[name].cpu()
        client = torch.arange(len(members))[:, None].expand_as(members)[members >= 0].numpy()
        at_n = members[members >= 0]
        at = at_n.numpy()
        owner = pd.factorize(data.table["owner"])[0].astype(np.int64)[at]
        propensity = np.ones((len(at), task.longest))
        for known, values in zip(propensity, data.table["propensity"].to_numpy()[at], strict=True):
            known[: len(values)] = values
        logged = None if np.isnan(propensity).any() else propensity
        return cls(task, name, at, client, owner, logged, Trajectories(*(array.cpu()[at_n] for array in task.arrays)))

    @property
    def valid(self) -> Bools:
        """Which steps exist, [n, L]."""
        return (self.arrays.mask > 0).numpy()

    @property
    def outcome(self) -> Floats:
        """Outcomes, [n, L]."""
        return self.arrays.y.double().numpy()

    @property
    def chosen(self) -> Ints:
        """The group of every action, [n, L]: 0 the anchor off, 1 the anchor on, 2 anything else, padding too."""
        return groups(self.arrays.t.numpy(), *self.task.anchors)

    def history(self) -> History:
        """The sequences as propensities are estimated from them."""
        x_NX, a_NLA = self.sequences().x_NX.numpy().astype(np.float64), self.arrays.a.numpy().astype(np.float64)
        return History(x_NX, a_NLA, self.chosen, self.outcome, self.valid, self.client, self.owner)

    def log(self, propensity_NL: Floats) -> Log:
        """The sequences as off-policy values are estimated from them, with the propensity of what was chosen."""
        length_N = self.valid.sum(axis=1).astype(np.int64)
        return Log(self.client, self.owner, length_N, self.chosen, self.outcome, propensity_NL)

    def sequences(self, made: Trajectories | None = None) -> Sequences:
        """The sequences, or ``made`` ones in their place, as the downstream predictor takes them."""
        given = self.arrays if made is None else Trajectories(*(values.cpu() for values in made))
        codes = [one_hot(given.x_code[:, i], n) for i, n in enumerate(self.task.x_categories)]
        x = torch.cat([given.x, *(code.to(given.x.dtype) for code in codes)], 1).float()
        client = torch.from_numpy(self.client)
        return Sequences(x, given.a.float(), given.t, given.y.float(), given.mask > 0, client)

    def potentials(self, world: World, actions: Sequence[int]) -> Floats:
        """Outcome probabilities [n, L, A + 1] at these histories under ``actions`` [A] and, last, as logged."""
        found, at = world.potentials(self.name, torch.tensor(actions, device=self.task.device))
        return np.asarray(found.double().cpu().numpy()[self._order(at)])

    def generated(self, world: World) -> Sequences:
        """What the world draws in place of each sequence, as the downstream predictor takes it."""
        made, at = world.generate(self.name)
        return self.sequences(Trajectories(*(values.cpu()[torch.from_numpy(self._order(at))] for values in made)))

    def _order(self, at: Tensor) -> Ints:
        """Where the sequences stand among answers given in the order of the positions ``at``."""
        return np.asarray(pd.Index(at.cpu().numpy()).get_indexer(pd.Index(self.at)))
