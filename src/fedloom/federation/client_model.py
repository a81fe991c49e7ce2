"""The contract of a client model: a module that several methods train, and how it is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fedloom.federation.stack import Bound
from fedloom.federation.values import Moment, Phase, Step


class ClientModel(ABC):
    """A module that several methods train: how it is built and trained, and which part is its head."""

    name: ClassVar[str]
    family: ClassVar[str]
    head: ClassVar[tuple[str, ...]]

    @dataclass(frozen=True)
    class Params:
        """Settings of the model."""

    def __init__(self, params: Any) -> None:
        self.params = params

    @abstractmethod
    def build(self, task: Any) -> nn.Module:
        """One client's module."""

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """The phases of a round, in order; by default one."""
        return (Phase(),)

    @abstractmethod
    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """What runs on every minibatch, in order, at the method's learning rate."""

    def parameters(self, task: Any, module: nn.Module) -> Tensor:
        """Numbers [C] that each client holds for its predictions; by default all of ``module``'s."""
        return torch.full((len(task.ids),), sum(p.numel() for p in module.parameters()))

    def selectable(self, round_: int, rounds: int) -> bool:
        """Whether model selection may take this round (all parts trained); by default any."""
        return True

    def predict(self, model: Bound, batch: Any, moment: Moment) -> Tensor:
        """What the task scores; by default the module's output."""
        return model(batch)
