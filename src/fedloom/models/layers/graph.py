"""Graphs as stacks of supports, and convolutions over them: what graph networks of several methods share.

A support is a matrix [N, N] whose row i weighs the nodes that node i reads. Tensors over nodes have the nodes first,
x [N, ..., F], so that applying all supports at once is one matrix product.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from fedloom.errors import InputError
from fedloom.federation.tasks.forecast import ForecastTask


def adjacency(edges: Tensor, weights: Tensor, nodes: int) -> Tensor:
    """The matrix [N, N] of an edge list [2, E] with weights [E]: row = source, column = receiver."""
    return weights.new_zeros((nodes, nodes)).index_put((edges[0], edges[1]), weights)


def panel_graph(task: ForecastTask) -> Tensor:
    """The panel's weighted edges as a matrix [N, N] on the CPU, nodes in the order of their keys.

    Raises InputError for a panel without edges.
    """
    if not task.edges.shape[1]:
        raise InputError("panel: edges: expected at least one for a method that needs a graph, found none")
    order = task.keys.cpu().argsort()
    return adjacency(task.edges.cpu(), task.weights.cpu(), len(order))[order][:, order]


def random_walk(adjacency_NN: Tensor) -> Tensor:
    """D^-1 W: rows that sum to 1; a node without edges keeps a row of zeros."""
    degree_N = adjacency_NN.sum(1, keepdim=True)
    return adjacency_NN / degree_N.where(degree_N > 0, torch.ones_like(degree_N))


def both_directions(adjacency_NN: Tensor) -> Tensor:
    """Random walks along the edges and against them, [2, N, N]: D_out^-1 W and D_in^-1 W^T (DCRNN, Sec. 2.2)."""
    return torch.stack([random_walk(adjacency_NN), random_walk(adjacency_NN.mT)])


def powers(supports_SNN: Tensor, order: int) -> Tensor:
    """The supports and their powers up to ``order``, [S * order, N, N]: P, P^2, ... of the first, then of the next."""
    found = [supports_SNN]
    for _ in range(order - 1):
        found.append(found[-1] @ supports_SNN)
    return torch.stack(found, 1).flatten(0, 1)


def chebyshev(supports_SNN: Tensor, order: int) -> Tensor:
    """Chebyshev polynomials T_1 to T_order of the supports, [S * order, N, N]: T_k = 2 P T_(k-1) - T_(k-2)."""
    before, now = torch.eye(supports_SNN.shape[-1]).to(supports_SNN).expand_as(supports_SNN), supports_SNN
    found = [now]
    for _ in range(order - 1):
        before, now = now, 2 * supports_SNN @ now - before
        found.append(now)
    return torch.stack(found, 1).flatten(0, 1)


def adaptive(source_ND: Tensor, target_ND: Tensor) -> Tensor:
    """A support [N, N] learnt from two vectors a node: softmax over rows of relu(E1 E2) (Graph WaveNet, Eq. 5)."""
    return torch.relu(source_ND @ target_ND.mT).softmax(-1)


def spread(x: Tensor, supports_SNN: Tensor) -> list[Tensor]:
    """``x`` [N, ..., F] as each node holds it, then as each of the S supports brings it there: 1 + S tensors."""
    brought = supports_SNN.flatten(0, 1) @ x.flatten(1)
    return [x, *brought.view(len(supports_SNN), *x.shape).unbind(0)]


class DiffusionConv(nn.Module):
    """sum_s P_s X W_s + b, the identity being the first support: x [N, ..., F] to [N, ..., D] (DCRNN, Eq. 2)."""

    def __init__(self, inputs: int, outputs: int, supports: int, bias: bool = True) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs * (1 + supports))
        self.weight = nn.Parameter(torch.empty(1 + supports, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Tensor, supports_SNN: Tensor) -> Tensor:
        return linear(torch.cat(spread(x, supports_SNN), -1), self.weight.flatten(0, 1).mT, self.bias)
