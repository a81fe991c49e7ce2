"""CaST's spatial part (Xia et al., NeurIPS 2023): signals on pairs of neighbours say how strongly nodes act.

There are E pairs of nodes that an edge joins, the earlier node first; every pair stands for both directions. Tensors
over nodes have the nodes first, those over pairs the pairs, x [N, B, F] and [E, B, F].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from fedloom.federation.tasks.forecast import ForecastTask

STILL = 1e-9  # variance, in that of a node's training readings, up to which one counts as constant


def neighbours(adjacency_NN: Tensor) -> Tensor:
    """All pairs of nodes with an edge in either direction, [2, E]."""
    return torch.maximum(adjacency_NN, adjacency_NN.mT).triu(1).nonzero().mT


def training_correlation(task: ForecastTask) -> Tensor:
    """Correlation [N, N] of the nodes' training readings, each two over the steps where both were observed.

    Nodes are in the order of their keys, on the CPU; 0 where a node does not vary.
    """
    seen = int(task.starts["train"].max()) + task.history + task.horizon
    order = task.keys.cpu().argsort()
    x, m = (v.cpu()[order, :seen].double() for v in (task.targets, task.observed))
    n, sums, squares = (m @ m.mT).clamp(min=1), x @ m.mT, x.square() @ m.mT
    variance = squares / n - (sums / n).square()
    vary = (variance > STILL) & (variance.mT > STILL)
    found = (x @ x.mT / n - sums * sums.mT / n.square()) / (variance * variance.mT).where(vary, 1.0).sqrt()
    return found.where(vary, 0.0).to(task.dtype)


def lagged_correlations(x_NBT: Tensor, pairs: Tensor, lags: Sequence[int]) -> Tensor:
    """Correlation of each pair's windows with the later node's turned back by each lag, [E, B, lags]."""
    window = layer_norm(x_NBT, x_NBT.shape[-1:])
    first, second = window[pairs[0]], window[pairs[1]]
    return torch.stack([(first * second.roll(-lag, -1)).mean(-1) for lag in lags], -1)


class PairConv(nn.Module):
    """sum_k L_k(2 / l L1) X W_k + b, with Laguerre polynomials of the pairs' Laplacian L1 = B^T B; B is N x E.

    l is the largest eigenvalue of B B^T. Recursion: T_0 = X, T_1 = X - L X, (k + 1) T_(k+1) = (2k + 1) T_k - k T_(k-1)
    - L T_k; ``order`` polynomials, T_0 among them.
    """

    incidence: Tensor

    def __init__(self, pairs: Tensor, nodes: int, width: int, order: int) -> None:
        super().__init__()
        each = torch.arange(pairs.shape[1])
        incidence = torch.zeros(nodes, pairs.shape[1], dtype=torch.float64)
        incidence[pairs[0], each], incidence[pairs[1], each] = -1.0, 1.0
        largest = torch.linalg.eigvalsh(incidence @ incidence.mT)[-1]
        self.register_buffer("incidence", incidence * (2 / largest).sqrt(), persistent=False)
        maps = [nn.init.xavier_uniform_(torch.empty(width, width)) for _ in range(order)]
        self.weight, self.bias = nn.Parameter(torch.stack(maps)), nn.Parameter(torch.zeros(width))

    def forward(self, x_EBD: Tensor) -> Tensor:
        before, now = torch.zeros_like(x_EBD), x_EBD
        found = self.bias
        for k, weight in enumerate(self.weight):
            found = found + now @ weight.mT
            moved = self.incidence.mT @ (self.incidence @ now.flatten(1))
            before, now = now, ((2 * k + 1) * now - k * before - moved.view_as(now)) / (k + 1)
        return found


class SceneNorm(nn.Module):
    """Layer normalisation over all nodes and features of a moment, with a gain and a shift for each of them."""

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(nodes, width)), nn.Parameter(torch.zeros(nodes, width))

    def forward(self, x_NBD: Tensor) -> Tensor:
        return layer_norm(x_NBD.transpose(0, 1), self.weight.shape, self.weight, self.bias).transpose(0, 1)


class Passing(nn.Module):
    """As many rounds of messages between neighbours as there are scores, on top of what a node knows."""

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__()
        self.map, self.bias = nn.Linear(width, width, bias=False), nn.Parameter(torch.zeros(width))
        self.norm = SceneNorm(nodes, width)

    def forward(self, h_NBD: Tensor, pairs: Tensor, scores_EBK: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """The nodes' vectors [N, B, D] after one round for each two of ``scores`` [E, B].

        The first weighs what a pair's later node hears of the earlier one, the second the way back.
        """
        known = now = self.map(h_NBD)
        receiver, source = torch.cat([pairs[1], pairs[0]]), torch.cat([pairs[0], pairs[1]])
        for forth, back in scores_EBK:
            empty = known.new_zeros((len(h_NBD), len(h_NBD), h_NBD.shape[1]))
            # Dense, so that a device adds messages in the same order every time.
            weight_NNB = empty.index_put((receiver, source), torch.cat([forth, back]))
            now = torch.relu(torch.einsum("nmb,mbd->nbd", weight_NNB, now))
        return self.norm(known + now + self.bias if scores_EBK else known + self.bias)
