"""Central LSTM: one bidirectional LSTM in one place reads all clients' inputs side by side and forecasts them all.

The centralised reference that ST-SplitVFL's abstract compares with; the text describes no architecture of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.central import steps_seen
from fedloom.federation.method import Method, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, StackedBound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.bilstm import BiForecaster, channel_counts, channels, halved
from fedloom.models.forecaster import masked_mse


class CentralForecaster(nn.Module):
    """The forecaster on the channels of C clients, joined in the order of their keys; forecasts [C, B, H]."""

    order: Tensor
    held: Tensor
    target: Tensor

    def __init__(self, task: ForecastTask, hidden: int, rate: float) -> None:
        super().__init__()
        self.slots_per_day, self.rate, self.horizon = task.slots_per_day, rate, task.horizon
        owned, active, order = channel_counts(task), task.wanted.any(1).cpu(), task.keys.argsort().cpu()
        self.forecaster = BiForecaster(int(owned.sum()), hidden, int(active.sum()) * task.horizon)
        held = torch.arange(int(owned.max())) < owned[order, None]
        for name, constant in {"order": order, "held": held, "target": order[active[order]]}.items():
            self.register_buffer(name, constant, persistent=False)

    def forward(self, batch: Windows, draw_CBD: Tensor | None = None) -> Tensor:
        """Of each client's channels those that it has; of the draws those of the first client in order."""
        x_TBCF = channels(batch, self.slots_per_day)[self.order].permute(1, 3, 0, 2)
        draw_BD = None if draw_CBD is None else draw_CBD[self.order[0]]
        ahead_BAH = self.forecaster(x_TBCF[:, :, self.held].mT, self.rate, draw_BD).unflatten(-1, (-1, self.horizon))
        forecast_CBH = ahead_BAH.new_zeros((len(self.order), len(ahead_BAH), self.horizon))
        return forecast_CBH.index_copy(0, self.target, ahead_BAH.movedim(1, 0))


class CentralLstm(Method):
    """All readings go to the centre once, and one module learns from windows of all clients at the same moment."""

    name = "central_lstm"
    cite = "ST-SplitVFL: Spatio-Temporal Split Vertical Federated Learning, abstract (centralised models)"
    family = "forecast"
    couples = True
    central = True

    @dataclass(frozen=True)
    class Params:
        """As the other forecasters of the paper."""

        lr: float = 1e-2  # Adam, Sec. 4.2
        halve_every: int = 20  # epochs, Sec. 4.2
        hidden: int = 64  # Sec. 4.2
        dropout: float = 0.1  # Sec. 4.2; of the final states, the text does not say of what

    def client(self, task: ForecastTask) -> nn.Module:
        """The one module."""
        return CentralForecaster(task, self.params.hidden, self.params.dropout)

    def collected(self, task: ForecastTask) -> Tensor:
        """Readings and own covariates up to the last one that training or validation sees; the clock is known."""
        return steps_seen(task) * (1 + task.owned).to(torch.float64)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on the sum of all clients' losses."""
        adam = Adam(halved(self.params.lr, self.params.halve_every, phase))
        return (Step(self.loss, adam, noise={"dropout": Noise((2 * self.params.hidden,), "uniform")}),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's squared error."""
        return Outcome(torch.vmap(masked_mse)(self.predict(model, batch, moment), batch))

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [C, B, H] of the one module that stands behind all rows."""
        assert isinstance(model, StackedBound)
        return model.one(batch, moment.noise.get("dropout"))
