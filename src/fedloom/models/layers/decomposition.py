"""STDN's parts (Cao et al., AAAI 2025): a graph for each time of day, places in one, GRUs, attention through points.

Tensors over nodes have the nodes first, x [N, B, T, D].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedloom.federation.central import Learning
from fedloom.models.layers.norm import BatchNorm


def positions(adjacency_NN: Tensor, count: int) -> Tensor:
    """The smoothest ``count`` eigenvectors [N, count] of the graph's normalised Laplacian, all but the very first.

    Edges count both ways. A node without edges is at zero, as is everyone along vectors that a small graph has not. Of
    a vector and its negative, that is taken whose largest entry is positive.
    """
    both_NN = torch.maximum(adjacency_NN, adjacency_NN.mT).double().fill_diagonal_(0)
    joined = both_NN.sum(1) > 0
    own = both_NN[joined][:, joined]
    scale = own.sum(1).rsqrt()
    vectors = torch.linalg.eigh(torch.eye(len(own)).double() - scale[:, None] * own * scale)[1][:, 1 : 1 + count]
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    found = both_NN.new_zeros((len(both_NN), count))
    found[joined, : vectors.shape[1]] = vectors * largest.sign()
    return found.to(adjacency_NN.dtype)


class SlotGraph(nn.Module):
    """A support for every time-of-day slot: softmax over rows of relu of a core contracted with three tables."""

    def __init__(self, nodes: int, slots: int, width: int) -> None:
        super().__init__()
        self.slot = nn.Parameter(torch.empty(slots, width))
        self.source, self.target = (nn.Parameter(torch.empty(nodes, width)) for _ in range(2))
        self.core = nn.Parameter(torch.empty(width, width, width))

    def forward(self, slot_B: Tensor) -> Tensor:
        """Supports [B, N, N], row = the node that reads."""
        seen_BDD = (self.slot[slot_B] @ self.core.flatten(1)).unflatten(1, self.core.shape[1:])
        return torch.relu(self.source @ seen_BDD @ self.target.mT).softmax(-1)


def walked(x_NBTD: Tensor, supports_BNN: Tensor, order: int) -> Tensor:
    """``x`` as it is, and as 1 to ``order`` steps over each sample's support bring it, side by side."""
    found, h = [x_NBTD], x_NBTD.transpose(0, 1).flatten(2)
    for _ in range(order):
        h = supports_BNN @ h
        found.append(h.unflatten(2, x_NBTD.shape[2:]).transpose(0, 1))
    return torch.cat(found, -1)


class Mapped(nn.Module):
    """A linear map of the last axis and a batch normalisation, which takes the place of the map's bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(inputs, outputs, bias=False), BatchNorm(outputs)

    def forward(self, x: Tensor, learning: Learning | None) -> Tensor:
        return self.norm(self.map(x), learning)


class StepGRU(nn.Module):
    """A recurrence with a cell of its own for every step; a gate of 1 takes the new state."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(2 * width, 2 * width) for _ in range(steps))
        self.candidate = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(steps))

    def forward(self, x_NBTD: Tensor) -> Tensor:
        """States [N, B, T, D] after every step, from a zero state."""
        h_NBD, states = torch.zeros_like(x_NBTD[:, :, 0]), []
        for x_NBD, gates, candidate in zip(x_NBTD.unbind(2), self.gates, self.candidate, strict=True):
            reset, update = torch.sigmoid(gates(torch.cat([x_NBD, h_NBD], -1))).chunk(2, -1)
            h_NBD = torch.lerp(h_NBD, torch.tanh(candidate(torch.cat([x_NBD, reset * h_NBD], -1))), update)
            states.append(h_NBD)
        return torch.stack(states, 2)


class Gathering(nn.Module):
    """Multi-head attention of one sequence to another whose maps are all normalised and rectified."""

    def __init__(self, inputs: int, width: int, outputs: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(width // heads)
        self.query, self.key, self.value = (Mapped(inputs, width) for _ in range(3))
        self.output = Mapped(width, outputs)

    def forward(self, asking: Tensor, asked: Tensor, learning: Learning | None) -> Tensor:
        """What each step of ``asking`` [N, B, T, F] gathers from the steps of ``asked``, [N, B, T, outputs]."""

        def heads(part: Mapped, x: Tensor) -> Tensor:
            return torch.relu(part(x, learning)).unflatten(-1, (self.heads, -1)).transpose(-2, -3)

        score = heads(self.query, asking) @ heads(self.key, asked).mT / self.scale
        found = (score.softmax(-1) @ heads(self.value, asked)).transpose(-2, -3).flatten(-2)
        return torch.relu(self.output(found, learning))


class PointAttention(nn.Module):
    """A few learnt points of each node gather from its sequence, and the sequence from the points; added to ``x``."""

    def __init__(self, nodes: int, points: int, width: int, heads: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.empty(1, points, nodes, 3 * width))
        self.gather = Gathering(3 * width, width, 3 * width, heads)
        self.spread = Gathering(3 * width, width, width, heads)

    def forward(self, x_NBTD: Tensor, code_NBTF: Tensor, learning: Learning | None) -> Tensor:
        """``code`` [N, B, T, 2D] says where and when the steps of ``x`` are."""
        told = torch.cat([x_NBTD, code_NBTF], -1)
        held = self.gather(self.points.permute(2, 0, 1, 3), told, learning)
        return x_NBTD + self.spread(told, held, learning)
