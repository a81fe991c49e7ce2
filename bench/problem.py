"""What all programs are timed on: one federation, its samples, their order in every round and the first weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bench.models import Timed
from fedloom.data.panels.panel import Panel, no_edges
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import derive, orders
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import Tensors
from fedloom.federation.tasks.forecast import ForecastTask, Windows, forecast_task
from fedloom.methods.fedavg import FedAvg

HORIZON = 12
HELD_OUT = 17  # windows of the validation part, and of the test part
MINUTES = 60
WARM_UP = 1  # rounds that are run and not counted: the engine looks at the validation part in its first


@dataclass(frozen=True)
class Setting:
    """One point at which programs are compared: ``steps`` local steps a round, ``rounds`` counted rounds a run."""

    model: str = "mlp"
    clients: int = 207
    batch: int = 32
    history: int = 12
    steps: int = 8
    rounds: int = 3
    lr: float = 0.05
    device: str = "cpu"
    seed: int = 1

    @property
    def samples(self) -> int:
        """Samples of a client, each of them used once a round."""
        return self.steps * self.batch


class Timing(NamedTuple):
    """Seconds of every counted round, and the weights after the last one, by name, without client axis."""

    seconds: list[float]
    weights: Tensors


@dataclass(frozen=True)
class Problem:
    """A setting with its data."""

    setting: Setting

    @cached_property
    def task(self) -> ForecastTask:
        """Noisy daily waves of all clients, who have equally many windows."""
        s = self.setting
        train = s.samples + s.history + HORIZON - 1
        held_out = HELD_OUT + s.history + HORIZON - 1
        ends = {"train": (0, train), "validation": (train, train + held_out)}
        ends["test"] = (train + held_out, train + 2 * held_out)
        steps = ends["test"][1]
        rng = np.random.default_rng(s.seed)
        phase = rng.uniform(0, 2 * np.pi, (s.clients, 1))
        waves = np.sin(2 * np.pi * np.arange(steps) / 24 + phase) + rng.normal(0, 0.3, (s.clients, steps))
        ids = [f"c{i:05d}" for i in range(s.clients)]
        stamps = pd.date_range("2024-01-01", periods=steps, freq=f"{MINUTES}min", name="timestamp")
        values = pd.DataFrame(waves.T.astype(np.float32), index=stamps, columns=ids)
        nodes = pd.DataFrame({"lat": 0.0, "lon": 0.0}, index=pd.Index(ids, name="id"))
        seen = values.iloc[:train]
        clients = pd.DataFrame({"mean": seen.mean(), "std": seen.std(ddof=0)}).rename_axis("client")
        rows = [(-1, p, i) for p, (a, b) in ends.items() for i in range(a, b - s.history - HORIZON + 1)]
        partition = {
            "dataset": "bench", "history": s.history, "horizon": HORIZON, "interval_minutes": MINUTES,
            "fill": "mean", "missing_literal": None, "split": {"train": [0, train]},
        }  # fmt: skip
        windows = pd.DataFrame(rows, columns=["client", "part", "start"])
        panel = Panel(values=values, nodes=nodes, edges=no_edges())
        return forecast_task(panel, partition, clients, windows, self.protocol, torch.device(s.device))

    @property
    def protocol(self) -> Protocol:
        """One round more than is run: the engine judges its last round, which is no part of training."""
        rounds = WARM_UP + self.setting.rounds + 1
        return Protocol(rounds=rounds, batch=self.setting.batch, validate_every=rounds, validation_stride=HELD_OUT)

    def federation(self) -> Federation:
        """The engine at work on this problem: federated averaging of all weights."""
        s = self.setting
        model = Timed(Timed.Params(s.model))
        return Federation(FedAvg(FedAvg.Params(lr=s.lr), model), self.task, self.protocol, s.seed)

    @cached_property
    def first_weights(self) -> Tensors:
        """What the server sends down in round 0."""
        return {name: value.clone() for name, value in self.federation().start().server.items()}

    @cached_property
    def windows(self) -> Windows:
        """All training samples of all clients side by side, [C, n, ...]."""
        rows = torch.arange(self.setting.clients, device=self.task.device)
        numbers = torch.arange(self.setting.samples, device=self.task.device).expand(len(rows), -1)
        return self.task.batch("train", rows, numbers)

    def order(self, round_: int) -> Tensor:
        """The order [C, n] in which each client's samples come in a round, as the engine draws it."""
        task, samples = self.task, self.setting.samples
        keys = derive(derive(task.keys, self.setting.seed, "train", round_), "order", 0)
        return orders(keys, task.sizes("train").to(task.device), samples, samples)

    def batches(self, client: int, round_order: Tensor) -> list[Windows]:
        """One client's minibatches of a round, whose order of everyone's samples is ``round_order`` [C, n]."""
        own = [part[client][round_order[client]].split(self.setting.batch) for part in self.windows]
        return [Windows(*parts) for parts in zip(*own, strict=True)]
