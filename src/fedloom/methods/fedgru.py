"""FedGRU: federated averaging of one recurrent forecaster.

Liu, Yu, Kang and Zhang, "Privacy-Preserving Traffic Flow Prediction: A Federated Learning Approach", IEEE Internet of
Things Journal 2020. No code of the authors is public: what the text leaves open is a choice, and says so below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fedloom.federation.method import Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.recurrent import GRU


class GruForecaster(nn.Module):
    """Stacked GRU layers read one reading a step; an affine map of the last state gives forecasts [B, H], scaled."""

    def __init__(self, horizon: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GRU(hidden if layer else 1, hidden) for layer in range(layers))
        self.output = nn.Linear(hidden, horizon)

    def forward(self, batch: Windows) -> Tensor:
        states_BTD = batch.x[..., None]
        for layer in self.layers:
            states_BTD = layer(states_BTD)
        return self.output(states_BTD[:, -1])


class FedGru(Method):
    """A GRU regressor shared by FedAvg (Sec. IV, Alg. 1).

    The paper's joint announcement, a random subset of organisations in each round, is the protocol's participation; its
    ensemble over clusters of clients is left out, as one model a federation is what it is compared with.
    """

    name = "fedgru"
    cite = "Liu et al. 2020, Privacy-Preserving Traffic Flow Prediction: A Federated Learning Approach, Alg. 1"
    family = "forecast"
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        """Ours where no source is named."""

        lr: float = 1e-3  # Adam, as Atlas, Sec. 5.1, has it for all
        hidden: int = 64  # as Atlas' D
        layers: int = 2  # of the sizes that a GRU can have here the one that Atlas' Table 1 calls tens of thousands

    def client(self, task: ForecastTask) -> nn.Module:
        """The recurrent forecaster."""
        return GruForecaster(task.horizon, self.params.hidden, self.params.layers)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on every minibatch; moments start anew with the averaged weights."""
        return (Step(self.loss, Adam(self.params.lr)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Masked squared error of one client's minibatch."""
        return Outcome(masked_mse(model(batch), batch))
