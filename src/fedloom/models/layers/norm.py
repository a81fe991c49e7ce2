"""Batch normalisation whose running statistics are values passed on, never changed in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from fedloom.federation.central import Learning

MOMENTUM = 0.1  # torch's default, as in the published models


class BatchNorm(nn.Module):
    """Normalises the last axis of x [..., D] over all others (Ioffe and Szegedy 2015).

    While learning by the batch, and the running mean and variance go to ``learning.renewed``; by these when judged.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor, learning: Learning | None) -> Tensor:
        mean, variance = self.mean, self.variance
        if learning is not None:
            mean, variance = mean.clone(), variance.clone()
            learning.renewed[self] = {"mean": mean, "variance": variance}
        scaled = batch_norm(x.flatten(0, -2), mean, variance, self.weight, self.bias, learning is not None, MOMENTUM)
        return scaled.view(x.shape)
