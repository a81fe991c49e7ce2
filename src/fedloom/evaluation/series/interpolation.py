"""What fills gaps without a model: a line between neighbours, the last value before, the mean of what is visible."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def linear_interpolation(x_BL: Tensor, visible_BL: Tensor) -> Tensor:
    """Return the windows with every point on the line between its visible neighbours; beyond them the nearest one.

    A window without a visible point is 0 everywhere, here and in the other two.
    """
    at_L = torch.arange(x_BL.shape[1], device=x_BL.device)
    before_BL, after_BL = _neighbours(visible_BL)
    has_before, has_after = before_BL >= 0, after_BL < x_BL.shape[1]
    before_BL = torch.where(has_before, before_BL, after_BL)
    after_BL = torch.where(has_after, after_BL, before_BL)
    some = has_before | has_after
    before_BL, after_BL = before_BL.where(some, 0), after_BL.where(some, 0)
    left, right = x_BL.gather(1, before_BL), x_BL.gather(1, after_BL)
    share = (at_L - before_BL).to(x_BL.dtype) / (after_BL - before_BL).clamp(min=1).to(x_BL.dtype)
    return (left + (right - left) * share).where(some, 0)


def last_value(x_BL: Tensor, visible_BL: Tensor) -> Tensor:
    """Return the windows with every point at the last visible value up to it; before the first, at the first."""
    before_BL, after_BL = _neighbours(visible_BL)
    nearest = torch.where(before_BL >= 0, before_BL, after_BL)
    some = nearest < x_BL.shape[1]
    return x_BL.gather(1, nearest.where(some, 0)).where(some, 0)


def window_mean(x_BL: Tensor, visible_BL: Tensor) -> Tensor:
    """Return the mean of the visible points of each window, at every point."""
    visible = visible_BL.to(x_BL.dtype)
    mean_B = (x_BL * visible).sum(1) / visible.sum(1).clamp(min=1)
    return mean_B[:, None].expand_as(x_BL)


FILLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear_interpolation": linear_interpolation,
    "last_value": last_value,
    "window_mean": window_mean,
}
"""Reference rows by name: (windows [B, L], which points are visible [B, L] bool) -> filled windows [B, L]."""


def _neighbours(visible_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Places [B, L] of the last visible point up to each point (-1: none) and of the first from it on (L: none)."""
    longest = visible_BL.shape[1]
    at_BL = torch.arange(longest, device=visible_BL.device).expand_as(visible_BL)
    before = torch.where(visible_BL, at_BL, -1).cummax(1).values
    after = torch.where(visible_BL, at_BL, longest).flip(1).cummin(1).values.flip(1)
    return before, after
