"""The truth of a generated world, laid out as the sequences of a part are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.trajectories.table import TrajectorySet
from fedloom.data.trajectories.truth import Truth, read_truth
from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.offpolicy.policies import POLICIES, Policy, plan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class KnownTruth:
    """``part`` is whose truth it is; ``row_of`` says which row of ``truth`` each position in the task's arrays has."""

    part: Part
    truth: Truth
    row_of: Ints

    @classmethod
    def read(cls, folder: Path, data: TrajectorySet, part: Part) -> KnownTruth:
        """The truth in ``folder`` of a part of ``data``. Raises InputError for a missing or broken artifact."""
        truth = read_truth(folder)
        row_of = pd.Index(truth.id).get_indexer(pd.Index(data.table["id"])).astype(np.int64)
        return cls(part, truth, row_of)

    @property
    def first(self) -> int:
        """The first step (from 0) of windows."""
        return int(self.truth.about["window_start"]) - 1

    @property
    def potentials(self) -> Floats:
        """Probability of the outcome under off and on at the part's logged histories, [n, L, 2]."""
        return self.truth.potentials[self.row_of[self.part.at]].astype(np.float64)

    def steps(self) -> dict[Policy, float]:
        """The exact value of deviating for one step of the part's logged histories, by policy."""
        valid, potentials = self.part.valid, self.potentials
        width, values = valid.sum(axis=1), {}
        for policy in POLICIES:
            chosen = plan(policy, width, valid.shape[1])
            taken = np.take_along_axis(potentials, chosen[..., None], axis=2)[..., 0]
            values[policy] = float(taken[valid].mean())
        return values

    def windows(self) -> dict[int | None, dict[Policy, float]]:
        """Values of policies in windows of the lengths that the truth holds, and in the whole one (None)."""
        means = np.nanmean(self.truth.horizon_values, axis=2)
        known = dict(zip(self.truth.about["horizons"], means, strict=True))
        known[None] = np.nanmean(self.truth.values, axis=1)
        return {horizon: dict(zip(POLICIES, values.tolist(), strict=True)) for horizon, values in known.items()}

    def units(self, most: int | None) -> Ints:
        """Positions of the part's sequences that have a value, at most ``most``: the same ones for every run."""
        units = self.part.at[self.truth.valued[self.row_of[self.part.at]]]
        return units[np.argsort(self.part.task.units.cpu().numpy()[units], kind="stable")[:most]]

    @property
    def draws(self) -> int:
        """Draws of the true mechanism that the truth holds beside its values."""
        return len(self.truth.floor)

    def at(self, positions: Ints, draws: int) -> tuple[Floats, Floats]:
        """Window values [P, n] of sequences by their positions, and their means in some draws [draws, P, n]."""
        rows = self.row_of[positions]
        return self.truth.values[:, rows], self.truth.floor[:draws, :, rows].astype(np.float64)
