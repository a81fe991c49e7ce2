"""FedProx: FedAvg whose clients are held near the model they received (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fedloom.federation.method import Loss, Moment, Outcome, Phase, Step
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
        """The client model's steps, each with the proximal term in its loss."""
        steps = self.model.steps(phase, self.params.lr)
        return [replace(step, loss=partial(self.held, step.loss), anchored=True) for step in steps]

    def held(self, loss: Loss, model: Bound, batch: Any, moment: Moment) -> Outcome:
        """A loss plus mu/2 times the squared distance from the parameters as they were received."""
        outcome = loss(model, batch, moment)
        distance = sum((model[name] - start).square().sum() for name, start in moment.start.items())
        return outcome._replace(loss=outcome.loss + self.params.mu / 2 * distance)
