"""One epoch of learning on a held-out set, from a run's weights: the same seeds, orders and heads for every run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.evaluation.series.foresee import Fill
from fedloom.federation.method import Method, Moment
from fedloom.federation.randomness import initial_seed, name_key
from fedloom.federation.runs import Run
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.series import SeriesWindows


@dataclass(frozen=True)
class Adaptation:
    """How a model learns from a held-out set, whatever the method that it comes from."""

    windows: int = 2000  # of a set, spread evenly over its training part
    tested: int = 512  # windows of a set and horizon that are judged
    batch: int = 64
    lr: float = 1e-4  # of the weights that a run brings
    head_lr: float = 1e-3  # of a new head: an epoch is too short for it to get anywhere at the rate of the rest
    clip: float = 1.0
    epochs: int = 1

    def __post_init__(self) -> None:
        for name in ("windows", "tested", "batch", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class Start:
    """The weights that all adaptations of a run start from, and how its method reads them."""

    method: Method
    skeleton: nn.Module
    tensors: Tensors
    length: int
    patch: int
    seed: int

    @classmethod
    def of(cls, run: Run) -> Start:
        """The model that the clients of ``run`` share, as selected."""
        tensors = {name: values[0] for name, values in run.weights("selected").items()}
        task = run.task
        return cls(run.method, run.skeleton, tensors, task.length, task.patch, run.spec["seed"])

    def model(self) -> nn.Module:
        """Return a fresh copy of the model, ready to be trained."""
        model = copy.deepcopy(self.skeleton)
        model.load_state_dict(self.tensors, strict=False)
        return model.requires_grad_()

    def fill(self, model: nn.Module) -> Fill:
        """Return how ``model`` fills in, as the method is judged; gradients run through."""
        return lambda batch: self.method.predict(_bound(model), batch, Moment({}, {}))

    @property
    def width(self) -> int:
        """Numbers that represent a token."""
        return int(self.tensors["head.weight"].shape[1])

    def represent(self, model: nn.Module, batch: SeriesWindows) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the head reads of windows: tokens [B, n, D]; and the mean and deviation [B, 1] they are of."""

        def read(module: Any) -> tuple[Tensor, Tensor, Tensor]:
            coded = module.encode(batch)
            tokens = coded.h if module.domain is None else coded.h + module.domain.bias
            return tokens, coded.mean, coded.sd

        found: tuple[Tensor, Tensor, Tensor] = _bound(model)(method=read)
        return found


def order(seed: int, purpose: str, epoch: int, n: int) -> Tensor:
    """Return an order [n] that depends on the seed, the purpose (a set and a task) and the epoch alone."""
    generator = torch.Generator().manual_seed(initial_seed(seed, name_key(f"{purpose}/{epoch}")))
    return torch.randperm(n, generator=generator)


def learn(
    groups: list[tuple[list[nn.Parameter], float]],
    loss: Callable[[Tensor], Tensor],
    n: int,
    purpose: str,
    seed: int,
    settings: Adaptation,
) -> Iterator[int]:
    """Train on samples 0..n-1; yield the number of epochs so far after each.

    ``groups`` are parameters with their learning rates, ``loss`` of samples [B] a scalar. AdamW without decay.
    """
    optimiser = torch.optim.AdamW([{"params": p, "lr": lr} for p, lr in groups if p], weight_decay=0.0)
    trained = [parameter for parameters, _ in groups for parameter in parameters]
    for epoch in range(settings.epochs):
        for some in order(seed, purpose, epoch, n).split(settings.batch):
            optimiser.zero_grad()
            loss(some).backward()
            torch.nn.utils.clip_grad_norm_(trained, settings.clip)
            optimiser.step()
        yield epoch + 1


def zero_linear(inputs: int, outputs: int, like: Tensor) -> nn.Linear:
    """Return a new head that says 0 of everything, the same for every run."""
    head = nn.Linear(inputs, outputs).to(device=like.device, dtype=like.dtype)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
    return head


def _bound(model: nn.Module) -> Bound:
    return Bound(model, dict(model.named_parameters()) | dict(model.named_buffers()))
