"""The small problem of decisions and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from fedloom.check.problem import CLIENTS, NAMES, PROTOCOL
from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.trajectory import TrajectoryTask, trajectory_task
from fedloom.models.latent_world import LatentWorldModel
from fedloom.partition.folder import TrajectoryPartition

SEQUENCES, LONGEST, ACTIONS = 90, 6, 4


@dataclass(frozen=True)
class TrajectoryProblem:
    """Short ragged sequences of decisions; ``client`` [n] and ``part`` [n] say whose each is, ``outcome`` is flat."""

    name: ClassVar[str] = "trajectory"
    answer: ClassVar[str] = "y"

    ids: tuple[str, ...]
    table: TrajectorySet
    client: np.ndarray
    part: np.ndarray

    @classmethod
    def small(cls, equal: bool = False) -> TrajectoryProblem:
        """Sequences of two to six steps whose outcomes depend on action and context.

        No method of this family couples its clients, so they are never made equal.
        """
        rng = np.random.default_rng(11)
        length = rng.integers(2, LONGEST + 1, SEQUENCES)
        start = np.concatenate([[0], np.cumsum(length)])
        steps = int(start[-1])
        a, t = rng.normal(size=(steps, 2)).astype(np.float32), rng.integers(0, ACTIONS, steps).astype(np.int32)
        a[:, 1] = a[:, 1] > 0
        y = (rng.uniform(size=steps) < 1 / (1 + np.exp(-a[:, 0] - t + 1))).astype(np.float32)
        x = rng.normal(size=(SEQUENCES, 2)).astype(np.float32)
        flat = Steps(start, x, a, t, y, np.full(steps, 1 / ACTIONS))
        about: dict[str, Any] = {
            "dataset": "check",
            "part": None,
            "unit": "",
            "actions": ACTIONS,
            "other_action": None,
            "dx": 2,
            "da": 2,
            "longest": LONGEST,
            "x_names": ["u", "v"],
            "a_names": ["level", "flag"],
            "a_kinds": ["continuous", "binary"],
            "rows": SEQUENCES,
            "owners": SEQUENCES,
            "exclusions": {},
        }
        table = trajectory_table(np.arange(SEQUENCES), [str(i) for i in range(SEQUENCES)], flat)
        client = rng.choice(CLIENTS, SEQUENCES, p=[0.35, 0.25, 0.15, 0.15, 0.1])
        part = rng.choice(["train", "validation", "test"], SEQUENCES, p=[0.7, 0.2, 0.1])
        part[(client == CLIENTS - 1) & (part == "train")] = "test"
        return cls(tuple(NAMES), TrajectorySet(table, about), client, part)

    @staticmethod
    def model() -> LatentWorldModel:
        """A small client model that learns the problem."""
        return LatentWorldModel(LatentWorldModel.Params(levels=10))

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> TrajectoryTask:
        """The problem as a task on ``device``."""
        about = {
            "dataset": "check",
            "anchors": {"off": 0, "on": 1},
            "x_mean": [0.0] * 2,
            "x_sd": [1.0] * 2,
            "a_mean": [0.0] * 2,
            "a_sd": [1.0] * 2,
        }
        assignment = pd.DataFrame({"id": self.table.table["id"], "client": self.client, "part": self.part})
        clients = pd.DataFrame(index=list(self.ids))
        dealt = TrajectoryPartition(about, assignment, clients)
        return trajectory_task(self.table, dealt, protocol, torch.device(device))

    def pick(self, order: list[int]) -> TrajectoryProblem:
        """The same problem with these clients, in this order."""
        kept = np.isin(self.client, order)
        table = TrajectorySet(self.table.table[kept].reset_index(drop=True), self.table.about)
        place = {old: new for new, old in enumerate(order)}
        client = np.array([place[c] for c in self.client[kept]])
        return TrajectoryProblem(tuple(self.ids[c] for c in order), table, client, self.part[kept])

    def spoiled_test(self) -> TrajectoryProblem:
        """Test sequences whose outcomes are all the other way round."""
        return self._flipped(self.part == "test")

    def disturbed(self, client: int) -> TrajectoryProblem:
        """One client's outcomes the other way round."""
        return self._flipped(self.client == client)

    def _flipped(self, rows: np.ndarray) -> TrajectoryProblem:
        table = self.table.table.copy()
        table["y"] = [1 - y if flip else y for y, flip in zip(table["y"], rows, strict=True)]
        return replace(self, table=TrajectorySet(table, self.table.about))
