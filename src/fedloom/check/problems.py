"""Small problems of every family, on which methods are checked: unequal clients, missing readings, one client idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from typing import Protocol as Shape

import numpy as np
import pandas as pd
import torch

from fedloom.data.panels.panel import Panel
from fedloom.data.series.table import SeriesSet
from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table
from fedloom.federation.protocol import Protocol
from fedloom.federation.task import Task
from fedloom.federation.tasks.forecast import ForecastTask, forecast_task
from fedloom.federation.tasks.series import SeriesTask, series_task
from fedloom.federation.tasks.trajectory import TrajectoryTask, trajectory_task
from fedloom.partition.trajectories import TrajectoryPartition

NAMES = "abcde"
CLIENTS, STEPS, HISTORY, HORIZON = len(NAMES), 160, 12, 4
TRAIN_END, VALIDATION_END = 100, 130
PLACES = [(0.0, 0.0), (0.0, 1.0), (0.1, 2.5), (3.0, 0.2), (3.2, 1.3)]  # latitude and longitude of a to e
PROTOCOL = Protocol(rounds=3, batch=16, train_stride=2, validation_stride=2, snapshot_every=2, precision="float64")


class Problem(Shape):
    """A problem of five clients a to e, of whom e has no training sample (unless all are equal)."""

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> Task:
        """The problem as a task on ``device``."""

    def pick(self, order: list[int]) -> Problem:
        """The same problem with these clients, in this order."""

    def spoiled_test(self) -> Problem:
        """The same problem with other values in the test part."""

    def disturbed(self, client: int) -> Problem:
        """The same problem with other readings of one client."""


@dataclass(frozen=True)
class ForecastProblem:
    """A small forecasting problem: raw readings [C, S], window starts of each client and part, a ring of edges."""

    values: np.ndarray
    train_from: tuple[int, ...]
    ids: tuple[str, ...]

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> ForecastTask:
        """The problem as a task on ``device``."""
        stamps = pd.date_range("2024-01-01", periods=self.values.shape[1], freq="h", name="timestamp")
        values = pd.DataFrame(self.values.T, index=stamps, columns=list(self.ids))
        edges = pd.DataFrame({"src": list(NAMES), "dst": [*NAMES[1:], NAMES[0]], "weight": 1.0})
        places = pd.DataFrame(PLACES, index=list(NAMES), columns=["lat", "lon"])
        nodes = places.loc[list(self.ids)].rename_axis("id")
        panel = Panel(values=values, nodes=nodes, edges=edges)
        seen = values.iloc[:TRAIN_END]
        clients = pd.DataFrame({"mean": seen.mean(), "std": seen.std(ddof=0)}, index=pd.Index(self.ids, name="client"))
        span = HISTORY + HORIZON
        ranges = {"validation": (TRAIN_END, VALIDATION_END), "test": (VALIDATION_END, self.values.shape[1])}
        rows = []
        for client, first in enumerate(self.train_from):
            own = {"train": (first, TRAIN_END)} | ranges
            rows += [(client, part, s) for part, (a, b) in own.items() for s in range(a, b - span + 1)]
        windows = pd.DataFrame(rows, columns=["client", "part", "start"])
        partition = {
            "dataset": "check", "history": HISTORY, "horizon": HORIZON, "interval_minutes": 60,
            "fill": "mean", "missing_literal": None, "split": {"train": [0, TRAIN_END]},
        }  # fmt: skip
        return forecast_task(panel, partition, clients, windows, protocol, torch.device(device))

    def pick(self, order: list[int]) -> ForecastProblem:
        """The same problem with these clients, in this order."""
        return ForecastProblem(
            self.values[order], tuple(self.train_from[i] for i in order), tuple(self.ids[i] for i in order)
        )

    def spoiled_test(self) -> ForecastProblem:
        """Test readings of 1e6."""
        values = self.values.copy()
        values[:, VALIDATION_END:] = 1e6
        return replace(self, values=values)

    def disturbed(self, client: int) -> ForecastProblem:
        """One client's readings with a wave on top."""
        values = self.values.copy()
        values[client] += 3.0 * np.sin(np.arange(STEPS))
        return replace(self, values=values)


def problem(equal: bool = False) -> ForecastProblem:
    """Noisy daily waves with a tenth of the readings missing; equal windows for all where ``equal``."""
    rng = np.random.default_rng(7)
    hours = np.arange(STEPS)
    phase, level = rng.uniform(0, 6, (CLIENTS, 1)), rng.uniform(20, 60, (CLIENTS, 1))
    values = level + 8 * np.sin(2 * np.pi * hours / 24 + phase) + rng.normal(0, 1, (CLIENTS, STEPS))
    values[rng.uniform(size=values.shape) < 0.1] = np.nan
    train_from = (0,) * CLIENTS if equal else (0, 30, 12, 0, TRAIN_END)
    return ForecastProblem(values, train_from, tuple(NAMES))


SEQUENCES, LONGEST, ACTIONS = 90, 6, 4


@dataclass(frozen=True)
class TrajectoryProblem:
    """Short ragged sequences of decisions; ``client`` [n] and ``part`` [n] say whose each is, ``outcome`` is flat."""

    ids: tuple[str, ...]
    table: TrajectorySet
    client: np.ndarray
    part: np.ndarray

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


def trajectory_problem() -> TrajectoryProblem:
    """Sequences of two to six steps whose outcomes depend on action and context."""
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
    return TrajectoryProblem(tuple(NAMES), TrajectorySet(table, about), client, part)


LENGTH, PATCH = 16, 2


@dataclass(frozen=True)
class SeriesProblem:
    """Two recordings a client, of unequal length and with gaps; e's are too short to have a training part.

    ``values`` are the recordings, ``client`` [n] says whose each is; a third of each, its last, is validation and test.
    """

    ids: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    client: tuple[int, ...]

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> SeriesTask:
        """The problem as a task on ``device``."""
        names = [self.ids[c] for c in self.client]
        number = [str(self.client[: i + 1].count(c)) for i, c in enumerate(self.client)]
        table = pd.DataFrame({"client": names, "id": number, "channel": "", "values": list(self.values)})
        ends = [_ends(values) for values in self.values]
        seen = [values[: validation or None] for values, (validation, _) in zip(self.values, ends, strict=True)]
        scaling = pd.DataFrame(ends, columns=["validation", "test"])
        scaling["mean"], scaling["sd"] = [np.nanmean(v) for v in seen], [np.nanstd(v) for v in seen]
        rows = []
        for series, (owner, values) in enumerate(zip(self.client, self.values, strict=True)):
            bounds = (0, *ends[series], len(values))
            for part, first, last in zip(("train", "validation", "test"), bounds[:-1], bounds[1:], strict=True):
                # The first window of a part reaches back beyond it, where it sees nothing.
                starts = range(first - PATCH, last - LENGTH + 1, LENGTH // 4) if last > first else ()
                rows += [(owner, part, series, start) for start in starts]
        windows = pd.DataFrame(rows, columns=["client", "part", "series", "start"])
        partition = {"dataset": "check", "length": LENGTH, "patch": PATCH}
        clients = pd.DataFrame(index=list(self.ids))
        data = SeriesSet(table, {})
        return series_task(data, partition, clients, scaling, windows, protocol, torch.device(device))

    def pick(self, order: list[int]) -> SeriesProblem:
        """The same problem with these clients, in this order."""
        place = {old: new for new, old in enumerate(order)}
        kept = sorted((i for i, c in enumerate(self.client) if c in place), key=lambda i: (place[self.client[i]], i))
        client = tuple(place[self.client[i]] for i in kept)
        return SeriesProblem(tuple(self.ids[c] for c in order), tuple(self.values[i] for i in kept), client)

    def spoiled_test(self) -> SeriesProblem:
        """Test values of 1e6."""
        spoiled = tuple(values.copy() for values in self.values)
        for values in spoiled:
            values[_ends(values)[1] :] = 1e6
        return replace(self, values=spoiled)

    def disturbed(self, client: int) -> SeriesProblem:
        """One client's recordings with a wave on top."""
        values = list(self.values)
        for i, owner in enumerate(self.client):
            if owner == client:
                values[i] = values[i] + 3 * np.sin(np.arange(len(values[i])))
        return replace(self, values=tuple(values))


def _ends(values: np.ndarray) -> tuple[int, int]:
    """First points of the validation and test parts; a recording of under a hundred points has no training part."""
    n = len(values)
    return (0, n // 2) if n < 100 else (n * 2 // 3, n * 5 // 6)


def series_problem() -> SeriesProblem:
    """Waves of each client's own period, level and noise, a tenth of the points missing."""
    rng = np.random.default_rng(13)
    client = tuple(c for c in range(CLIENTS) for _ in range(2))
    values = []
    for owner, n in zip(client, (300, 180, 150, 200, 240, 150, 120, 300, 80, 60), strict=True):
        wave = rng.uniform(5, 50) + 4 * np.sin(2 * np.pi * np.arange(n) / (6 + 3 * owner) + rng.uniform(0, 6))
        wave = wave + rng.normal(0, 0.3 * (owner + 1), n)
        wave[rng.uniform(size=n) < 0.1] = np.nan
        values.append(wave)
    return SeriesProblem(tuple(NAMES), tuple(values), client)


def problem_for(family: str, equal: bool) -> Problem:
    """The problem of a family of tasks; equal samples for all clients where ``equal``."""
    if family == "series":
        return series_problem()
    return problem(equal) if family == "forecast" else trajectory_problem()
