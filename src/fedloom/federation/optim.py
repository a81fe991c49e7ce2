"""Optimisers over stacked clients: every client keeps its own moments and its own step count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam

from fedloom.federation.stack import Tensors, along


def _runs(counts: Tensor) -> Iterator[tuple[slice, int]]:
    """Runs of neighbouring clients with the same step count, as (rows, count)."""
    values = counts.tolist()
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            yield slice(start, i), int(values[start])
            start = i


def norms(grads: Tensors) -> Tensor:
    """Norm of each client's gradient, [C], over all tensors [C, ...]."""
    return torch.stack([g.flatten(1).square().sum(1) for g in grads.values()]).sum(0).sqrt()


def clip_(grads: Tensors, limit: float) -> None:
    """Scale each client's gradient (all tensors [C, ...]) down to norm ``limit`` where it is larger, in place."""
    scale_C = (limit / (norms(grads) + 1e-6)).clamp(max=1.0)
    for g in grads.values():
        g.mul_(along(scale_C, g))


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015), one independent copy a client; ``clip`` bounds each client's gradient norm.

    ``decay`` is AdamW's (Loshchilov and Hutter 2019): weights shrink by lr * decay a step, whatever the gradient;
    ``l2`` * weight is added to the gradient, after clipping.
    """

    lr: float
    clip: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    decay: float = 0.0
    l2: float = 0.0
    eps: float = 1e-8

    def start(self, params: Tensors) -> Tensors:
        """Fresh moments for ``params`` [C, ...]: first and second moments, and step counts [C] on the CPU."""
        moments: Tensors = {}
        for name, p in params.items():
            moments[f"{name}/mean"] = torch.zeros_like(p, memory_format=torch.contiguous_format)
            moments[f"{name}/square"] = torch.zeros_like(p, memory_format=torch.contiguous_format)
            moments[f"{name}/count"] = torch.zeros(len(p), dtype=torch.float32)
        return moments

    @torch.no_grad()
    def step(self, params: Tensors, grads: Tensors, moments: Tensors) -> None:
        """One step in place. ``params``, ``grads`` and ``moments`` hold the same clients in the same order."""
        if self.clip is not None:
            clip_(grads, self.clip)
        for name, p in params.items():
            if self.decay:
                p.mul_(1 - self.lr * self.decay)
            counts = moments[f"{name}/count"]
            for rows, count in _runs(counts):
                adam(
                    [p[rows]],
                    [grads[name][rows].contiguous()],  # the fused kernel reads memory in order, whatever the strides
                    [moments[f"{name}/mean"][rows]],
                    [moments[f"{name}/square"][rows]],
                    [],
                    [torch.tensor(float(count), device=p.device)],
                    fused=True,
                    amsgrad=False,
                    beta1=self.betas[0],
                    beta2=self.betas[1],
                    lr=self.lr,
                    weight_decay=self.l2,
                    eps=self.eps,
                    maximize=False,
                )
            counts += 1


@dataclass(frozen=True)
class SGD:
    """Plain gradient descent; it keeps no moments."""

    lr: float
    clip: float | None = None

    def start(self, params: Tensors) -> Tensors:
        """No moments."""
        return {}

    @torch.no_grad()
    def step(self, params: Tensors, grads: Tensors, moments: Tensors) -> None:
        """One step in place on ``params`` [C, ...]."""
        if self.clip is not None:
            clip_(grads, self.clip)
        for name, p in params.items():
            p.sub_(grads[name], alpha=self.lr)


Optimiser = Adam | SGD


def stepped(lr: float, milestones: Sequence[float], factor: float, progress: float) -> float:
    """The learning rate at ``progress`` (share of the rounds that is over): times ``factor`` at every milestone."""
    return lr * factor ** sum(progress >= milestone for milestone in milestones)
