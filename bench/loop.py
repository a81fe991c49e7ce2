"""A plain loop over clients in PyTorch: what a first implementation looks like, with tensors indexed and no loader."""

from __future__ import annotations

import time

import torch
from torch import nn

from bench.engine import synchronise
from bench.models import plain_module
from bench.problem import WARM_UP, Problem, Timing
from fedloom.federation.stack import Tensors
from fedloom.federation.tasks.forecast import Windows
from fedloom.models.forecaster import masked_mse


def train(module: nn.Module, batches: list[Windows], lr: float) -> None:
    """One client's local steps, in place."""
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for batch in batches:
        optimiser.zero_grad()
        masked_mse(module(batch), batch).backward()
        optimiser.step()


def run(problem: Problem) -> Timing:
    """Train one client after the other; the server averages their weights."""
    s = problem.setting
    module = plain_module(s.model, problem.task).to(problem.task.device)
    weights: Tensors = dict(problem.first_weights)
    seconds = []
    for round_ in range(WARM_UP + s.rounds):
        synchronise(problem.task.device)
        begun = time.perf_counter()
        order = problem.order(round_)
        # A thousand numbers added up in float32 lose more than what counts as equal.
        total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in weights.items()}
        for client in range(s.clients):
            module.load_state_dict(weights)
            train(module, problem.batches(client, order), s.lr)
            for name, value in module.state_dict().items():
                total[name] += value
        weights = {name: (value / s.clients).to(weights[name].dtype) for name, value in total.items()}
        synchronise(problem.task.device)
        seconds.append(time.perf_counter() - begun)
    return Timing(seconds[WARM_UP:], weights)
