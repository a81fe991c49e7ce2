"""A pre-norm transformer encoder whose attention is written out.

Fused attention kernels have no second derivative, which gradient matching needs, and may not run under ``vmap``; at the
few tokens of a window an explicit softmax is as fast. There is no dropout: a module must not draw noise of its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017) over tokens [B, n, D]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads: expected a divisor of the width {width}, found {heads}")
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, h_BnD: Tensor, alive_Bn: Tensor) -> Tensor:
        """What each token gathers from the tokens that are ``alive``; from all alike where none is."""
        # Three products rather than one that is cut up: the gradient of a cut is a copy of all of it.
        maps = zip(self.inward.weight.chunk(3), self.inward.bias.chunk(3), strict=True)
        q, k, v = (linear(h_BnD, *of).unflatten(-1, (self.heads, -1)).transpose(1, 2) for of in maps)
        score_BHnn = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)
        # A large finite number: a row of infinities would be a row of NaN.
        score_BHnn = score_BHnn.masked_fill(~alive_Bn[:, None, None], torch.finfo(h_BnD.dtype).min)
        return self.outward((score_BHnn.softmax(-1) @ v).transpose(1, 2).flatten(-2))


class EncoderLayer(nn.Module):
    """h + attention(norm(h)), then h + feed-forward(norm(h)) of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attend_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h_BnD: Tensor, alive_Bn: Tensor) -> Tensor:
        h_BnD = h_BnD + self.attend(self.attend_norm(h_BnD), alive_Bn)
        return h_BnD + self.outer(gelu(self.inner(self.feed_norm(h_BnD))))
