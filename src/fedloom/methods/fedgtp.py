"""FedGTP: a graph recurrent network over all clients, whose graph is factored so that only sums leave a client.

Yang et al., "FedGTP: Exploiting Inter-Client Spatial Dependency in Federated Graph-based Traffic Prediction", KDD 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.layers.tensor_graph import NodeForecaster, forecast


class FedGtp(Method):
    """Every call of a gate meets all clients in sums at the server, in training and in use; pools are averaged.

    Sums come back as plain numbers: no gradient returns through them, not even to a client's own share. The authors'
    code shuffles windows before it splits them, scales by whole series, reports unmasked errors and drops the last
    batch; none of that is done here. Its gates' sums have no scale, so they grow with the clients: that is published,
    and kept. The graph is learned: the task's is not used.
    """

    name = "fedgtp"
    cite = "Yang et al. 2024, FedGTP: Exploiting Inter-Client Spatial Dependency, KDD, Sec. 4"
    family = "forecast"
    couples = True
    shared = ("coefficients", "cells", "output")

    @dataclass(frozen=True)
    class Params:
        """As the authors' code runs."""

        lr: float = 3e-3  # Adam
        hidden: int = 64
        layers: int = 2  # one in its settings for METR-LA
        vector: int = 2  # numbers in a client's vector
        order: int = 2  # P, of the polynomial; the paper has 4

    def edges(self, task: ForecastTask) -> Tensor:
        """All pairs: the sums join everyone with everyone."""
        everyone = torch.arange(len(task.ids), device=task.device)
        return torch.cartesian_prod(everyone, everyone).T

    def client(self, task: ForecastTask) -> NodeForecaster:
        """A client's own vector, and its copy of what is shared."""
        p = self.params
        return NodeForecaster(task.horizon, p.hidden, p.layers, p.vector, p.order)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """The optimiser is made anew every round: that of the vector, which stays at home, too."""
        return {"vector": clients.params["vector"]}

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step of every client on every minibatch, all of the same windows."""
        return (Step(self.loss, Adam(self.params.lr)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's mean absolute error over observed targets, in scaled units; 0 where there are none."""
        error = (self.predict(model, batch, moment) - batch.y).abs() * batch.mask
        return Outcome(error.sum((1, 2)) / batch.mask.sum((1, 2)).clamp(min=1))

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [C, B, H]."""
        assert moment.exchange is not None
        return forecast(model.tensors, batch.x, moment.exchange)
