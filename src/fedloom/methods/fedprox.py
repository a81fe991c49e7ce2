"""FedProx: FedAvg whose clients are held near the model they received (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.federation.method import Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.methods.fedavg import FedAvg


class FedProx(FedAvg):
    """FedAvg with the proximal term mu/2 |theta - theta_r|^2 in every client's loss (Alg. 2)."""

    name = "fedprox"
    cite = "Li et al. 2020, Federated Optimization in Heterogeneous Networks, Alg. 2"

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # Atlas, Sec. 5.1
        mu: float = 0.01  # from the authors' range 0.001 to 1; Atlas names none

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One step that also sees the parameters as they were received."""
        return (Step(self.loss, Adam(self.params.lr), anchored=True),)

    def loss(self, model: Bound, batch: Any, moment: Moment) -> Outcome:
        """The client model's loss plus the proximal term."""
        outcome = super().loss(model, batch, moment)
        distance = sum((model[name] - start).square().sum() for name, start in moment.start.items())
        return outcome._replace(loss=outcome.loss + self.params.mu / 2 * distance)
