"""Tasks on which networks over all nodes are tried: of METR-LA's size, and one small enough to be learnt by heart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Method
from fedloom.federation.randomness import client_keys
from fedloom.federation.rounds import Federation, predictor
from fedloom.federation.tasks.forecast import ForecastTask

SENSORS = 207


@pytest.fixture
def metr_la_sized() -> ForecastTask:
    """A task of METR-LA's sizes: 207 sensors, here in a ring, 12 steps of 5 minutes to 12."""
    task, ids = problem(equal=True).task(), [f"s{i}" for i in range(SENSORS)]
    ring = torch.arange(SENSORS)
    return replace(
        task,
        ids=ids,
        keys=client_keys(ids),
        edges=torch.stack([ring, ring.roll(1)]),
        weights=torch.ones(SENSORS),
        horizon=12,
        slots_per_day=288,
        mean=torch.zeros(SENSORS),
        sd=torch.ones(SENSORS),
        starts={part: starts[:1].expand(SENSORS, -1) for part, starts in task.starts.items()},
    )


@pytest.fixture
def by_heart() -> Callable[[Method, int], float]:
    """Return ``by_heart(method, steps)``: its training error (MAE, raw unit) after steps on 3 clients, 64 windows.

    It begins near 15. The readings hold noise of MAE 0.8, which none but these windows' own memory explains.
    """

    def train(method: Method, steps: int) -> float:
        few = replace(problem(equal=True).pick([0, 1, 2]), train_from=(21,) * 3)
        protocol = replace(PROTOCOL, rounds=steps, batch=64, train_stride=1, validate_every=steps, precision="float32")
        federation = Federation(method, few.task(protocol), protocol, seed=0)
        assert federation.task.sizes("train").tolist() == [64] * 3
        state = federation.run(federation.start())
        assert state.diverged is None
        return sum(v for r, _, quantity, v in state.log if (r, quantity) == (steps - 1, "train_loss"))

    return train


@pytest.fixture
def together_by_heart() -> Callable[[Method, int, int], float]:
    """Return ``together_by_heart(method, rounds, epochs)``: the judged weights' squared error where they trained.

    On 3 clients and 64 windows of waves of unit variance that hide nothing and carry no noise, so that what is left is
    the method's own; one minibatch an epoch, ``epochs`` a round.
    """

    def train(method: Method, rounds: int, epochs: int) -> float:
        given = replace(problem(equal=True).pick([0, 1, 2]), train_from=(21,) * 3)
        hours, phase = np.arange(given.values.shape[1]), np.arange(3)[:, None] * 2.0
        given = replace(given, values=40 + 8 * np.sin(2 * np.pi * hours / 24 + phase))
        protocol = replace(PROTOCOL, rounds=rounds, epochs=epochs, batch=64, train_stride=1, validate_every=rounds)
        task = given.task(replace(protocol, precision="float32"))
        federation = Federation(method, task, protocol, seed=0)
        state, rows = federation.run(federation.start()), torch.arange(3)
        batch = task.batch("train", rows, torch.arange(64).expand(3, -1))
        predict = predictor(method, federation.skeleton, task, federation.weights(state))
        return float((predict(batch, rows) - batch.y).square().mean())

    return train
