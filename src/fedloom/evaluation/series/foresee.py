"""Forecasts of a model that fills in: the future is a stretch of hidden tokens at the end of the window."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedloom.federation.tasks.series import SeriesWindows

Fill = Callable[[SeriesWindows], Tensor]
"""Windows [B, ...] -> filled windows [B, L]."""


def rollout(fill: Fill, x_BL: Tensor, seen_BL: Tensor, horizon: int, patch: int) -> Tensor:
    """Return forecasts [B, horizon] of what follows the windows ``x`` (0 where ``seen`` is 0).

    Up to half a window is foretold at once, as a suffix of hidden tokens; what lies further is foretold in blocks of
    half a window, each of which sees the blocks before it as if they had been observed.
    """
    limit = max(patch, x_BL.shape[1] // 2 // patch * patch)
    blocks: list[Tensor] = []
    for done in range(0, horizon, limit):
        step = min(limit, horizon - done)
        width = -(-step // patch) * patch
        asked = with_future(x_BL, seen_BL, width, patch)
        block = fill(asked)[:, -width:][:, :step]
        blocks.append(block)
        x_BL = torch.cat([x_BL, block], 1)[:, step:]
        seen_BL = torch.cat([seen_BL, torch.ones_like(block)], 1)[:, step:]
    return torch.cat(blocks, 1)


def with_future(x_BL: Tensor, seen_BL: Tensor, width: int, patch: int) -> SeriesWindows:
    """Return windows whose last ``width`` points (whole tokens) are unknown and hidden, the rest the latest past."""
    future = x_BL.new_zeros(len(x_BL), width)
    x = torch.cat([x_BL[:, width:], future], 1)
    seen = torch.cat([seen_BL[:, width:], torch.ones_like(future)], 1)
    tokens = x.shape[1] // patch
    hidden = torch.arange(tokens, device=x.device) >= tokens - width // patch
    return SeriesWindows(x=x, seen=seen, hidden=hidden.expand(len(x), -1), valid=x.new_ones(len(x)))


def seasonal_naive(x_BL: Tensor, seen_BL: Tensor, horizon: int, season: int) -> Tensor:
    """Return the values of one season before, over and over; without a season (0) the last value.

    A missing value is replaced by the last one before it. Windows are at least a season long.
    """
    at = torch.arange(x_BL.shape[1], device=x_BL.device)
    latest = torch.where(seen_BL > 0, at, -1).cummax(1).values
    # Before the first observed value there is none to repeat: 0, the mean of the training part.
    filled = x_BL.gather(1, latest.clamp(min=0)).where(latest >= 0, 0)
    period = max(1, season)
    steps = torch.arange(horizon, device=x_BL.device) % period
    return filled[:, filled.shape[1] - period + steps]


def past_mean(x_BL: Tensor, seen_BL: Tensor, horizon: int) -> Tensor:
    """Return the mean of the observed past, at every step."""
    mean_B = (x_BL * seen_BL).sum(1) / seen_BL.sum(1).clamp(min=1)
    return mean_B[:, None].expand(-1, horizon)
