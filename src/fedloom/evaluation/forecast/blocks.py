"""Errors of the test part by block of time, which the paired tests resample."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.evaluation.forecast.stream import Forecasts

LEAST_BLOCKS = 20


def block_length(first: int, last: int, steps_per_day: int) -> int:
    """Return how many consecutive window starts make a block: a day, or less where there are not 20 days.

    A block must outlast the correlation of errors, and there must be enough blocks to resample.
    """
    return max(1, min(steps_per_day, (last - first + 1) // LEAST_BLOCKS))


class BlockSums:
    """Masked sums over windows and horizon by node and block [C, K], in float64: ``abs``, ``sq`` and ``n``.

    ``starts_CW`` [C, W] holds the first input step of each node's windows, -1 where it has none.
    """

    def __init__(self, starts_CW: Tensor, steps_per_day: int) -> None:
        real = starts_CW[starts_CW >= 0]
        first, last = int(real.min()), int(real.max())
        length = block_length(first, last, steps_per_day)
        self.block_CW = ((starts_CW - first) // length).clamp(min=0)
        shape = len(starts_CW), (last - first) // length + 1
        self.abs, self.sq, self.n = (torch.zeros(shape, dtype=torch.float64, device=starts_CW.device) for _ in range(3))

    def add(self, some: Forecasts) -> None:
        """Add forecasts."""
        scored_CBH = some.mask_CBH & (some.window_CB >= 0)[..., None]
        error_CBH = torch.where(scored_CBH, some.forecast_CBH - some.truth_CBH, 0).to(torch.float64)
        block_CB = self.block_CW.gather(1, some.window_CB.clamp(min=0))
        self.abs.scatter_add_(1, block_CB, error_CBH.abs().sum(2))
        self.sq.scatter_add_(1, block_CB, error_CBH.square().sum(2))
        self.n.scatter_add_(1, block_CB, scored_CBH.to(torch.float64).sum(2))
