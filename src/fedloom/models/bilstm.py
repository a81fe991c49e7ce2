"""The forecaster of ST-SplitVFL: a bidirectional LSTM whose two final states give all steps ahead (Sec. 4.2).

Its functions take weights with any leading axes, so that the forecasters of all clients can run as one program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.method import ClientModel, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, below
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask, Windows
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.lstm import LSTM, final_states

CALENDAR = 2  # channels that the clock gives: slot of the day and weekday


def channels(batch: Windows, slots_per_day: int) -> Tensor:
    """What a client reads, [..., T, F, B]: its reading, slot of the day and weekday in [0, 1], its own covariates."""
    slot_BT, weekday_BT = batch.clock_at(torch.arange(1 - batch.x.shape[-1], 1, device=batch.x.device), slots_per_day)
    calendar = [slot_BT / max(1, slots_per_day - 1), weekday_BT / (DAYS_PER_WEEK - 1)]
    shared = torch.stack([batch.x.mT, *(c.mT.to(batch.x.dtype) for c in calendar)], -2)
    return torch.cat([shared, batch.own.movedim(-3, -1)], -2)


def channel_counts(task: ForecastTask) -> Tensor:
    """How many channels each client has [C]; those with fewer than others read zeros for the rest."""
    return 1 + CALENDAR + task.owned


def halved(lr: float, every: int, phase: Phase) -> float:
    """The learning rate of a round: halved ``every`` so many rounds, which are epochs here (Sec. 4.2)."""
    return lr * 0.5 ** (phase.round // every)


def forecast(x_TFB: Tensor, weights: Mapping[str, Tensor], rate: float, draw_BD: Tensor | None) -> Tensor:
    """Forecasts [..., B, H]; where uniform draws [..., B, 2D] are given, final states below ``rate`` are dropped."""
    states_DB = final_states(x_TFB, below(weights, "recurrent."))
    if draw_BD is not None:
        states_DB = states_DB * (draw_BD.mT >= rate) / (1 - rate)
    return (weights["output.weight"] @ states_DB + weights["output.bias"][..., None]).mT


class BiForecaster(nn.Module):
    """One client's forecaster; ``forward`` gives forecasts [B, H], scaled."""

    def __init__(self, inputs: int, hidden: int, horizon: int) -> None:
        super().__init__()
        self.recurrent = LSTM(inputs, hidden, bidirectional=True)
        self.output = nn.Linear(2 * hidden, horizon)

    def forward(self, x_TFB: Tensor, rate: float = 0.0, draw_BD: Tensor | None = None) -> Tensor:
        return forecast(x_TFB, dict(self.named_parameters()), rate, draw_BD)


def forecaster_size(inputs: Tensor, hidden: int, horizon: Tensor) -> Tensor:
    """Parameters of forecasters with ``inputs`` [C] channels and ``horizon`` [C] steps; none where there is none."""
    recurrent = 2 * (4 * hidden * (inputs + hidden) + 8 * hidden)
    return (horizon > 0) * (recurrent + (2 * hidden + 1) * horizon)


class LocalForecaster(nn.Module):
    """The forecaster on a client's own channels; ``forward`` reads windows."""

    def __init__(self, task: ForecastTask, hidden: int, rate: float) -> None:
        super().__init__()
        self.slots_per_day, self.rate = task.slots_per_day, rate
        self.forecaster = BiForecaster(int(channel_counts(task).max()), hidden, task.horizon)

    def forward(self, batch: Windows, draw_BD: Tensor | None = None) -> Tensor:
        forecast_BH: Tensor = self.forecaster(channels(batch, self.slots_per_day), self.rate, draw_BD)
        return forecast_BH


class BiLstm(ClientModel):
    """The forecaster on a client's own channels: the client model of Local LSTM (Sec. 4.3)."""

    name = "bilstm"
    family = "forecast"
    head = ("forecaster.output",)

    @dataclass(frozen=True)
    class Params:
        hidden: int = 64  # Sec. 4.2
        dropout: float = 0.1  # Sec. 4.2; of the final states, the text does not say of what
        halve_every: int = 20  # epochs, Sec. 4.2

    def build(self, task: ForecastTask) -> nn.Module:
        """One client's forecaster."""
        return LocalForecaster(task, self.params.hidden, self.params.dropout)

    def parameters(self, task: ForecastTask, module: nn.Module) -> Tensor:
        """Those of each client's channels and horizon; a passive client forecasts nothing."""
        return forecaster_size(channel_counts(task), self.params.hidden, task.wanted.sum(1).cpu())

    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """One Adam step, at a rate that is halved by and by (Sec. 4.2)."""
        noise = {"dropout": Noise((2 * self.params.hidden,), "uniform")}
        return (Step(self.loss, Adam(halved(lr, self.params.halve_every, phase)), noise=noise),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Masked squared error of one client's minibatch."""
        return Outcome(masked_mse(self.predict(model, batch, moment), batch))

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [B, H], scaled."""
        return model(batch, moment.noise.get("dropout"))
