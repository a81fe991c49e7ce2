"""Domain bias elimination: what a dataset adds to every token's code, told apart from the code and put back.

FeDaL, Sec. on DBE: h_t, h_s = TimeDecomp(h, tau); b = Mean(h_t) * gamma_t + Mean(h_s) * gamma_s. The module fits behind
any encoder of tokens.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Seasonal = Literal["literal", "rms"]


def trend_width(tokens: int) -> int:
    """Width of the moving average: Autoformer's 25 for 64 tokens or more, else the odd number nearest a quarter.

    A width near the number of tokens would make the trend a constant.
    """
    return 25 if tokens >= 64 else max(3, 2 * round((tokens / 4 - 1) / 2) + 1)


def averaging(tokens: int, width: int) -> Tensor:
    """The matrix [n, n] of a moving average over ``width`` (odd) neighbouring tokens (Autoformer's trend).

    The first and the last token are repeated beyond the ends.
    """
    at = torch.arange(tokens)[:, None] + torch.arange(width) - width // 2
    return torch.zeros(tokens, tokens).scatter_add(1, at.clamp(0, tokens - 1), torch.full(at.shape, 1 / width))


class DomainBias(nn.Module):
    """The bias b [D] of a client's codes.

    ``gamma_trend`` and ``gamma_season`` [D] scale its two parts. ``bias`` [D] is b as it stands: its moving average
    while a client trains, and what a model adds where it does not learn.

    The mean of h - MA(h) over tokens is all but zero, by construction: as printed (``literal``) the seasonal part is
    inert. ``rms`` takes the root of the mean square instead.
    """

    bias: Tensor
    average: Tensor

    def __init__(self, width: int, tokens: int, seasonal: Seasonal = "literal", gain: float = 0.1) -> None:
        super().__init__()
        self.seasonal = seasonal
        self.gamma_trend = nn.Parameter(torch.full((width,), gain))
        self.gamma_season = nn.Parameter(torch.full((width,), gain))
        self.register_buffer("bias", torch.zeros(width))
        self.register_buffer("average", averaging(tokens, trend_width(tokens)), persistent=False)

    def of_batch(self, h_BnD: Tensor, weight_Bn: Tensor) -> Tensor:
        """b [D] of codes, means taken over tokens and windows with weights (0 for padding)."""
        share = (weight_Bn / weight_Bn.sum().clamp(min=1))[..., None]
        trend = self.average @ h_BnD
        season = h_BnD - trend
        if self.seasonal == "rms":
            # The floor keeps the root's derivative finite where all tokens agree.
            mean_season = ((season.square() * share).sum((0, 1)) + 1e-12).sqrt()
        else:
            mean_season = (season * share).sum((0, 1))
        return (trend * share).sum((0, 1)) * self.gamma_trend + mean_season * self.gamma_season

    def smoothed(self, h_BnD: Tensor, weight_Bn: Tensor, memory: float) -> Tensor:
        """(1 - memory) times b of the batch plus memory times the running b: gradient flows through the batch alone."""
        return torch.lerp(self.of_batch(h_BnD, weight_Bn), self.bias.detach(), memory)
