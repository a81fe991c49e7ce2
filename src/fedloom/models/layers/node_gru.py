"""AGCRN's recurrent cell (Bai et al. 2020, Sec. 3.3) for a client that is one sensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Pools(nn.Module):
    """Weights that a sensor draws from a pool by its embedding E [d]: E . W [d, F, O] and E . b [d, O]."""

    def __init__(self, embedding: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(nn.init.xavier_uniform_(torch.empty(embedding, inputs, outputs)))
        self.bias = nn.Parameter(nn.init.xavier_uniform_(torch.empty(embedding, outputs)))

    def drawn(self, node_d: Tensor) -> tuple[Tensor, Tensor]:
        """The sensor's weight [F, O] and bias [O].

        The graph I + relu(E E^T) of one sensor is the number 1 + |E|^2, by which the weight is multiplied.
        """
        weight_FO = torch.tensordot(node_d, self.weights, 1) * (1 + node_d.square().sum())
        return weight_FO, node_d @ self.bias


class Cell(nn.Module):
    """One layer; its gates keep (r) and mask (z) the state the other way round than a GRU's, as in AGCRN's code."""

    def __init__(self, embedding: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.inputs, self.hidden = inputs, hidden
        self.gate = Pools(embedding, inputs + hidden, 2 * hidden)
        self.update = Pools(embedding, inputs + hidden, hidden)

    def forward(self, x_TBF: Tensor, node_d: Tensor) -> Tensor:
        """States [T, B, D] after every step, from a zero state."""
        gate_FO, gate_bias = self.gate.drawn(node_d)
        update_FO, update_bias = self.update.drawn(node_d)
        from_x = torch.cat([gate_FO[: self.inputs], update_FO[: self.inputs]], -1)
        given = x_TBF @ from_x + torch.cat([gate_bias, update_bias])
        gate_DO, update_DO = gate_FO[self.inputs :], update_FO[self.inputs :]
        h_BD = x_TBF.new_zeros((x_TBF.shape[1], self.hidden))
        states = []
        for step in given.unbind(0):
            gates, new = step.split([2 * self.hidden, self.hidden], -1)
            mask, keep = (gates + h_BD @ gate_DO).sigmoid().chunk(2, -1)
            h_BD = torch.lerp((new + (mask * h_BD) @ update_DO).tanh(), h_BD, keep)
            states.append(h_BD)
        return torch.stack(states)


class NodeGRU(nn.Module):
    """Stacked layers on a sensor's readings."""

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Cell(embedding, hidden if layer else 1, hidden) for layer in range(layers))

    def forward(self, x_BT: Tensor, node_d: Tensor) -> Tensor:
        """The top layer's state [B, D] after the last step."""
        states = x_BT.T[..., None]
        for layer in self.layers:
            states = layer(states, node_d)
        return states[-1]
