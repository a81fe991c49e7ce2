"""A graph recurrent forecaster whose nodes meet in sums alone (FedGTP; the cell is AGCRN's, Bai et al. 2020).

The graph between nodes i and j is a polynomial in the product of their vectors, sum_p a_p (e_i . e_j)^p. As the p-th
power of a product is the product of the vectors' p-fold Kronecker powers, what all nodes send to node i is its own
powers times sums over nodes, and no node needs another's vector or state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedloom.federation.exchange import Exchange
from fedloom.federation.stack import Tensors, below


def kronecker_powers(vector_CD: Tensor, order: int) -> list[Tensor]:
    """The vectors' Kronecker powers 0 to ``order``, [C, D^p] each."""
    found = [torch.ones_like(vector_CD[:, :1])]
    for _ in range(order):
        found.append((found[-1][:, :, None] * vector_CD[:, None, :]).flatten(1))
    return found


class Pool(nn.Module):
    """Pools from which a node's vector makes the weights of its own affine map (AGCRN, Sec. 3.1)."""

    def __init__(self, vector: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(vector, inputs, outputs)))
        self.bias = nn.Parameter(nn.init.xavier_uniform_(torch.empty(vector, outputs)))


class Cell(nn.Module):
    """Pools of a gated cell: of its two gates, and of its new state."""

    def __init__(self, vector: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gate = Pool(vector, inputs + hidden, 2 * hidden)
        self.update = Pool(vector, inputs + hidden, hidden)


class NodeForecaster(nn.Module):
    """What one node holds: its vector, the polynomial's coefficients, the pools of all layers, the output map.

    Drawn as in the authors' code: Xavier's uniform distribution for tensors of several axes, uniform in [0, 1] for
    those of one.
    """

    def __init__(self, horizon: int, hidden: int, layers: int, vector: int, order: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, vector))[0])
        self.coefficients = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, order + 1))[0])
        self.cells = nn.ModuleList(Cell(vector, hidden if layer else 1, hidden) for layer in range(layers))
        self.output = nn.Linear(hidden, horizon)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.uniform_(self.output.bias)


class Meeting:
    """Where all nodes meet: each one's vector and its powers, for all products of one forward pass."""

    def __init__(self, tensors: Tensors, exchange: Exchange) -> None:
        self.exchange, self.vector_CD = exchange, tensors["vector"]
        powers = kronecker_powers(self.vector_CD, tensors["coefficients"].shape[1] - 1)
        self.sent_CF = torch.cat(powers, 1)
        weighed = (a[:, None] * power for a, power in zip(tensors["coefficients"].unbind(1), powers, strict=True))
        self.read_CF = torch.cat(list(weighed), 1)

    def affine(self, pool: Tensors) -> tuple[Tensor, Tensor]:
        """Weights [C, I, O] and biases [C, 1, O] that the vectors make of pools [C, D, I, O] and [C, D, O]."""
        weight = torch.einsum("cd,cdio->cio", self.vector_CD, pool["weight"])
        return weight, torch.einsum("cd,cdo->co", self.vector_CD, pool["bias"])[:, None]

    def mixed(self, h_CBI: Tensor) -> Tensor:
        """h_i + sum_p a_p f_p(e_i) sum_j f_p(e_j)^T h_j; sums come back as numbers, so no gradient returns to them."""
        sums_FBI = self.exchange.products(self.sent_CF, h_CBI, gradient=False)
        return h_CBI + (self.read_CF @ sums_FBI.flatten(1)).view_as(h_CBI)


def forecast(tensors: Tensors, x_CBT: Tensor, exchange: Exchange) -> Tensor:
    """Forecasts [C, B, H] of all nodes, which hold ``tensors`` [C, ...] of a ``NodeForecaster`` each."""
    meeting = Meeting(tensors, exchange)
    inputs = [reading[..., None] for reading in x_CBT.unbind(-1)]
    hidden = tensors["output.weight"].shape[-1]
    layers = {name.split(".")[1] for name in tensors if name.startswith("cells.")}
    for layer in sorted(layers, key=int):
        cell = below(tensors, f"cells.{layer}.")
        gate, update = (meeting.affine(below(cell, f"{name}.")) for name in ("gate", "update"))
        h_CBD = x_CBT.new_zeros((*x_CBT.shape[:2], hidden))
        for step, now in enumerate(inputs):
            gates = torch.baddbmm(gate[1], meeting.mixed(torch.cat([now, h_CBD], -1)), gate[0]).sigmoid()
            reset, keep = gates.split(hidden, -1)
            mixed = meeting.mixed(torch.cat([now, reset * h_CBD], -1))
            h_CBD = torch.lerp(torch.baddbmm(update[1], mixed, update[0]).tanh(), h_CBD, keep)
            inputs[step] = h_CBD
    return torch.baddbmm(tensors["output.bias"][:, None], inputs[-1], tensors["output.weight"].mT)
