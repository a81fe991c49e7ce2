"""The networks that are timed, as client models of the engine and as a user of plain torch writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.method import ClientModel, Moment, Outcome, Phase, Step
from fedloom.federation.optim import SGD
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.methods.atlas import Atlas, CodebookForecaster
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.recurrent import GRU

HIDDEN = {"mlp": 64, "gru": 32}


class Mlp(nn.Module):
    """T readings, one hidden layer, H forecasts [B, H]."""

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(history, HIDDEN["mlp"]), nn.Linear(HIDDEN["mlp"], horizon)

    def forward(self, batch: Windows) -> Tensor:
        return self.outer(torch.relu(self.inner(batch.x)))


class Recurrent(nn.Module):
    """A GRU that reads one reading a step; an affine map of its last state gives forecasts [B, H].

    ``layer`` is the engine's GRU or torch's own, which hold the same parameters under the same names.
    """

    def __init__(self, layer: nn.Module, horizon: int) -> None:
        super().__init__()
        self.gru, self.output = layer, nn.Linear(HIDDEN["gru"], horizon)

    def forward(self, batch: Windows) -> Tensor:
        states = self.gru(batch.x[..., None])
        states_BTD = states[0] if isinstance(states, tuple) else states
        return self.output(states_BTD[:, -1])


def engine_module(name: str, task: ForecastTask) -> nn.Module:
    """One client's network as the engine trains it: ``mlp`` (12-64-12), ``gru`` (32) or ``atlas``."""
    if name == "mlp":
        return Mlp(task.history, task.horizon)
    if name == "gru":
        return Recurrent(GRU(1, HIDDEN["gru"]), task.horizon)
    return CodebookForecaster(task, Atlas.Params())


def plain_module(name: str, task: ForecastTask) -> nn.Module:
    """The same network as a user of torch has it: ``torch.nn.GRU`` where the engine brings a GRU of its own."""
    if name == "gru":
        return Recurrent(nn.GRU(1, HIDDEN["gru"], batch_first=True), task.horizon)
    return engine_module(name, task)


class Timed(ClientModel):
    """A network of this module as a client model."""

    name = "timed"
    family = "forecast"
    head = ()

    @dataclass(frozen=True)
    class Params:
        """Which network."""

        network: str

    def build(self, task: ForecastTask) -> nn.Module:
        """One client's network."""
        return engine_module(self.params.network, task)

    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """One step on every minibatch, by plain gradient descent.

        Adam divides by what is nearly 0 and makes programs whose sums differ in the last bit drift apart.
        """
        return (Step(self.loss, SGD(lr)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Squared error of one client's minibatch."""
        return Outcome(masked_mse(model(batch), batch))
