"""The small forecasting problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from fedloom.check.problem import CLIENTS, NAMES, PROTOCOL
from fedloom.data.panels.panel import Panel
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.forecast import ForecastTask, forecast_task
from fedloom.models.forecaster import Forecaster

STEPS, HISTORY, HORIZON = 160, 12, 4
TRAIN_END, VALIDATION_END = 100, 130
PLACES = [(0.0, 0.0), (0.0, 1.0), (0.1, 2.5), (3.0, 0.2), (3.2, 1.3)]  # latitude and longitude of a to e


@dataclass(frozen=True)
class ForecastProblem:
    """A small forecasting problem: raw readings [C, S], window starts of each client and part, a ring of edges."""

    name: ClassVar[str] = "forecast"
    answer: ClassVar[str] = "y"

    values: np.ndarray
    train_from: tuple[int, ...]
    ids: tuple[str, ...]

    @classmethod
    def small(cls, equal: bool = False) -> ForecastProblem:
        """Noisy daily waves with a tenth of the readings missing; equal windows for all where ``equal``."""
        rng = np.random.default_rng(7)
        hours = np.arange(STEPS)
        phase, level = rng.uniform(0, 6, (CLIENTS, 1)), rng.uniform(20, 60, (CLIENTS, 1))
        values = level + 8 * np.sin(2 * np.pi * hours / 24 + phase) + rng.normal(0, 1, (CLIENTS, STEPS))
        values[rng.uniform(size=values.shape) < 0.1] = np.nan
        train_from = (0,) * CLIENTS if equal else (0, 30, 12, 0, TRAIN_END)
        return cls(values, train_from, tuple(NAMES))

    @staticmethod
    def model() -> Forecaster:
        """A small client model that learns the problem."""
        return Forecaster(Forecaster.Params(encoder="compact", width=8, depth=1))

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
