"""CaST's temporal part (Xia et al., NeurIPS 2023): a window's environment and what is the entity's own.

Tensors are [N, B, T, D], nodes first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, mse_loss, pad

from fedloom.federation.central import Learning, dropped


class Dilated(nn.Linear):
    """A convolution over time of three taps, so far apart, that keeps the length; beyond the ends are zeros."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__(3 * inputs, outputs)
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[-2]
        if self.dilation >= steps:  # the outer taps read nothing but zeros
            return linear(x, self.weight.chunk(3, 1)[1], self.bias)
        wide = pad(x, (0, 0, self.dilation, self.dilation))
        return super().forward(torch.cat([wide[..., k * self.dilation :, :][..., :steps, :] for k in range(3)], -1))


class Block(nn.Module):
    """Two such convolutions behind a GELU each, and a way around them."""

    def __init__(self, inputs: int, outputs: int, dilation: int, mapped: bool) -> None:
        super().__init__()
        self.inner, self.outer = Dilated(inputs, outputs, dilation), Dilated(outputs, outputs, dilation)
        self.around = nn.Linear(inputs, outputs) if mapped else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(gelu(self.inner(gelu(x)))) + self.around(x)


def start(width: int, depth: int) -> nn.Sequential:
    """Readings [..., T, 1] to [..., T, D]: ``depth`` blocks of one channel and one of D; dilations double."""
    blocks = [Block(1, 1, 2**i, mapped=False) for i in range(depth)]
    return nn.Sequential(*blocks, Block(1, width, 2**depth, mapped=True))


class Environment(nn.Module):
    """The entry of a codebook that is nearest to a window's code, which comes from convolutions of the past alone."""

    def __init__(self, history: int, width: int, code: int, entries: int) -> None:
        super().__init__()
        reaches = [2**j for j in range(max(1, int(math.log2(max(history // 2, 1)))))]
        self.past = nn.ModuleList(nn.Linear(reach * width, width) for reach in reaches)
        self.code, self.output = nn.Linear(width, code), nn.Linear(history * code, width)
        self.book = nn.Parameter(torch.empty(entries, history * code).uniform_(-1 / entries, 1 / entries))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the entry says [N, B, D], the code itself [N, B, T * d] and the entry's number [N, B].

        The gradient passes the choice of an entry as if the code had not been exchanged for it.
        """
        steps, sums = x.shape[2], torch.zeros_like(x)
        for k, part in enumerate(self.past):
            reach = 2**k
            wide = pad(x, (0, 0, reach - 1, 0))
            sums = sums + part(torch.cat([wide[:, :, lag : lag + steps] for lag in range(reach)], -1))
        code = self.code(sums / len(self.past)).flatten(2)
        with torch.no_grad():
            chosen = (self.book.square().sum(1) - 2 * code @ self.book.mT).argmin(-1)
        return self.output(code + (self.book[chosen] - code).detach()), code, chosen

    def distances(self, code: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared distance [N] of entries from their codes, which moves entries, and the same that moves codes."""
        entry = self.book[chosen]
        moving_entries = mse_loss(entry, code.detach(), reduction="none")
        moving_codes = mse_loss(code, entry.detach(), reduction="none")
        return moving_entries.mean((1, 2)), moving_codes.mean((1, 2))


class Entity(nn.Module):
    """Self-attention over time and a linear map of every frequency, added up and brought to one vector a window."""

    def __init__(self, history: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.gathered = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        frequencies, bound = history // 2 + 1, 1 / width
        # Real and imaginary parts lie side by side: optimisers and saved weights know real numbers.
        self.weight = nn.Parameter(torch.empty(frequencies, width, width, 2).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(frequencies, width, 2).uniform_(-bound, bound))
        self.output = nn.Linear(history, 1)

    def attended(self, x: Tensor, learning: Learning | None) -> Tensor:
        """x with what its steps gather from one another, normalised."""
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(2, 3) for part in (self.query, self.key, self.value)
        )
        share = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
        found = (dropped(share, learning, "shares", self.dropout) @ value).transpose(2, 3).flatten(3)
        return self.norm(dropped(self.gathered(found), learning, "gathered", self.dropout) + x)

    def forward(self, x: Tensor, learning: Learning | None) -> Tensor:
        weight, bias = torch.view_as_complex(self.weight), torch.view_as_complex(self.bias)
        spectrum = torch.einsum("nbfi,fio->nbfo", torch.fft.rfft(x, dim=2), weight) + bias
        both = self.attended(x, learning) + torch.fft.irfft(spectrum, x.shape[2], dim=2)
        return self.output(dropped(both, learning, "entity", self.dropout).mT)[..., 0]
