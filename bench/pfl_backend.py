"""pfl's simulated backend on the same problem: one worker, clients one after the other."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bench.models import plain_module
from bench.problem import WARM_UP, Problem, Timing
from fedloom.federation.tasks.forecast import Windows
from fedloom.models.forecaster import masked_mse


class WithLoss(nn.Module):
    """A network with the methods that pfl asks for."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, *parts: Tensor) -> Tensor:
        """Squared error of one minibatch."""
        batch = Windows(*parts)
        return masked_mse(self.network(batch), batch)

    def metrics(self, *parts: Tensor) -> dict[str, Any]:
        """None: nothing is judged while it is timed."""
        return {}


def run(problem: Problem) -> Timing:
    """Train by ``FederatedAveraging`` with everybody in every cohort."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    s = problem.setting
    rounds = WARM_UP + s.rounds
    ends: list[float] = []
    drawn: dict[int, Tensor] = {}

    class Clock(TrainingProcessCallback):
        """Notes when a round ended."""

        def on_train_begin(self, *, model: Any) -> Metrics:
            ends.append(time.perf_counter())
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Any, model: Any, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            ends.append(time.perf_counter())
            return False, Metrics()

    def samples(client: int) -> PyTorchTensorDataset:
        round_ = len(ends) - 1
        if round_ not in drawn:
            drawn.clear()
            drawn[round_] = problem.order(round_)
        order = drawn[round_][client]
        return PyTorchTensorDataset([part[client][order] for part in problem.windows], user_id=str(client))

    turn = iter(range(rounds * s.clients))
    network = plain_module(s.model, problem.task)
    network.load_state_dict(problem.first_weights)
    module = WithLoss(network)
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    # pfl asks a sampler for users as often as a cohort is large: in turn, everybody comes once a round.
    data = FederatedDataset(samples, lambda: next(turn) % s.clients)
    backend = SimulatedBackend(data, None)
    settings = NNAlgorithmParams(
        central_num_iterations=rounds, evaluation_frequency=rounds + 1, train_cohort_size=s.clients, val_cohort_size=0
    )
    local = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=s.lr, local_batch_size=s.batch)
    FederatedAveraging().run(
        settings, backend, model, local, NNEvalHyperParams(local_batch_size=None), [Clock()],
        send_metrics_to_platform=False,
    )  # fmt: skip
    seconds = [end - begun for begun, end in pairwise(ends)]
    weights = {name: value.detach().clone() for name, value in network.state_dict().items()}
    return Timing(seconds[WARM_UP:], weights)
