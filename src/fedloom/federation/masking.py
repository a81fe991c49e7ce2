"""What is hidden of a window, and the scale of what is left: shared by the task, the models and the evaluation."""

from __future__ import annotations

import torch
from torch import Tensor

HIDDEN_SHARE = 0.75  # of a window's tokens, in training and validation

# Windows arrive in units of their series' own deviation. Below a tenth of it the visible part says nothing of how much
# the hidden part moves (a stuck sensor, a night without sun), and dividing by it would let one window rule the loss.
LEAST_SD = 0.1


def token_seen(seen: Tensor, tokens: int) -> Tensor:
    """Whether each of ``tokens`` equal stretches of ``seen`` [..., L] holds an observed point: bool [..., n]."""
    return seen.unflatten(-1, (tokens, -1)).amax(-1) > 0


def hide(noise: Tensor, seen: Tensor, share: float = HIDDEN_SHARE) -> Tensor:
    """Hide the floor(share * m) of a window's m observed tokens that have the lowest ``noise``: bool [..., n].

    ``noise`` [..., n] holds one draw a token; ``seen`` [..., L] is 1 where a point was observed. A token without any
    observed point is never hidden, so that a short window keeps something to be rebuilt from.
    """
    there = token_seen(seen, noise.shape[-1])
    rank = noise.masked_fill(~there, torch.inf).argsort(-1).argsort(-1)
    count = (there.sum(-1, keepdim=True) * share + 1e-6).floor()
    return rank < count


def points(hidden: Tensor, length: int) -> Tensor:
    """Tokens [..., n] as points [..., length]."""
    return hidden.repeat_interleave(length // hidden.shape[-1], dim=-1)


def visible_scale(x: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation [..., 1] of ``x`` [..., L] over the points where ``visible`` [..., L] is 1.

    Population deviation, at least ``LEAST_SD``; 0 and 1 where nothing is visible.
    """
    n = visible.sum(-1, keepdim=True)
    mean = (x * visible).sum(-1, keepdim=True) / n.clamp(min=1)
    variance = ((x - mean).square() * visible).sum(-1, keepdim=True) / n.clamp(min=1)
    sd = variance.clamp(min=LEAST_SD**2).sqrt()
    return mean, torch.where(n > 0, sd, torch.ones_like(sd))
