"""Training at the server: on what clients sent, in an order that does not depend on the order of the clients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import grad

from fedloom.federation.optim import Adam
from fedloom.federation.randomness import bits
from fedloom.federation.stack import Bound, Tensors


def union(rows: Tensor, size: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The first ``size`` [c] of each client's ``rows`` [c, K, ...] as one set [R, ...], and a key [R] for each.

    They are ordered by key; ``keys`` [c] are the clients', fresh for this use.
    """
    words = bits(keys, rows.shape[1])
    own = torch.arange(rows.shape[1], device=rows.device) < size[:, None]
    words, order = words[own].sort()
    return rows[own][order], words


def tuned(
    model: Bound, method: str, start: Tensors, samples: tuple[Tensor, ...], batch: int, optimiser: Adam
) -> Tensors:
    """``start`` after one pass over ``samples`` (a named tuple of tensors [R, ...]) in minibatches.

    ``method`` of ``model`` is what is made small by the weights of ``start``; the model's other tensors stay.
    """

    def loss(weights: Tensors, taken: tuple[Tensor, ...]) -> Tensor:
        error: Tensor = model.holding(weights)(taken, method=method)
        return error

    stacked = {name: value[None].clone() for name, value in start.items()}
    moments = optimiser.start(stacked)
    for begin in range(0, len(samples[0]), batch):
        taken = type(samples)(*(part[begin : begin + batch] for part in samples))
        slope = grad(loss)({name: value[0] for name, value in stacked.items()}, taken)
        optimiser.step(stacked, {name: value[None] for name, value in slope.items()}, moments)
    return {name: value[0] for name, value in stacked.items()}
