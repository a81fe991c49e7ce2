"""Which points a model must fill in: whole tokens, or single points, by a window's key and a rate alone.

A mask belongs to a window and a rate. It is therefore the same for every method, seed, batch size and device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.federation.masking import hide, points
from fedloom.federation.randomness import derive, uniform
from fedloom.federation.tasks.series import SeriesWindows

RATES = (0.125, 0.25, 0.375, 0.5, 0.75)
"""Shares of hidden tokens: those that imputation studies use, and the share of pre-training."""

POINT_RATES = (0.125, 0.25, 0.375, 0.5)
"""Shares of missing points of the imputation protocol."""


def hide_tokens(batch: SeriesWindows, keys: Tensor, rate: float) -> tuple[SeriesWindows, Tensor]:
    """Return windows [..., L] with a share ``rate`` of their tokens hidden, and the hidden observed points [..., L].

    ``keys`` [...] are the windows'. What is hidden is also taken out of ``x``, so that no method can look at it by
    mistake; ``seen`` still says that there is something to fill in, as it does in training.
    """
    tokens, length = batch.hidden.shape[-1], batch.x.shape[-1]
    draws = uniform(derive(keys.flatten(), "hidden tokens", _thousandths(rate)), (tokens,), torch.float64)
    hidden = hide(draws.view(*keys.shape, tokens), batch.seen, rate)
    covered = points(hidden, length)
    scored = covered & (batch.seen > 0) & (batch.valid > 0)[..., None]
    return batch._replace(x=batch.x.masked_fill(covered, 0), hidden=hidden), scored


def drop_points(batch: SeriesWindows, keys: Tensor, rate: float) -> tuple[SeriesWindows, Tensor]:
    """Return windows [..., L] with a share ``rate`` of their observed points missing, and which these are [..., L].

    A token that loses all its points counts as hidden.
    """
    observed = batch.seen > 0
    draws = uniform(derive(keys.flatten(), "missing points", _thousandths(rate)), (batch.x.shape[-1],), torch.float64)
    rank = draws.view(batch.x.shape).masked_fill(~observed, torch.inf).argsort(-1).argsort(-1)
    dropped = rank < (rate * observed.sum(-1, keepdim=True)).round()
    left = (observed & ~dropped).to(batch.seen.dtype)
    tokens = batch.hidden.shape[-1]
    emptied = (left.unflatten(-1, (tokens, -1)).sum(-1) == 0) & (batch.seen.unflatten(-1, (tokens, -1)).sum(-1) > 0)
    seen = torch.where(points(emptied, batch.x.shape[-1]), batch.seen, left)
    asked = batch._replace(x=batch.x.masked_fill(dropped, 0), seen=seen, hidden=emptied)
    return asked, dropped & (batch.valid > 0)[..., None]


def _thousandths(rate: float) -> int:
    return round(1000 * rate)
