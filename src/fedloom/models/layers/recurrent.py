"""Recurrent layers from matrix products, so that many clients' copies run as one program.

torch's own recurrent layers have no batching rule under vmap; these hold the same parameters under the same names and
give the same numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedloom.models.layers.gru import gru


class GRU(nn.Module):
    """One layer, batch first, gates in torch's order (reset, update, new)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))

        self.hidden = hidden
        self.weight_ih_l0, self.weight_hh_l0 = uniform(3 * hidden, inputs), uniform(3 * hidden, hidden)
        self.bias_ih_l0, self.bias_hh_l0 = uniform(3 * hidden), uniform(3 * hidden)

    def gates(self, u: Tensor) -> Tensor:
        """The input's part of the gates, [..., 3D], for all steps in one product."""
        return u @ self.weight_ih_l0.T + self.bias_ih_l0

    def step(self, gates_BG: Tensor, h_BD: Tensor) -> Tensor:
        """The next state from a step's input gates [B, 3D] and the state before it [B, D]."""
        from_input = gates_BG.split(self.hidden, dim=-1)
        from_state = (h_BD @ self.weight_hh_l0.T + self.bias_hh_l0).split(self.hidden, dim=-1)
        reset, update = (torch.sigmoid(i + s) for i, s in zip(from_input[:2], from_state[:2], strict=True))
        new = torch.tanh(from_input[2] + reset * from_state[2])
        return torch.lerp(new, h_BD, update)

    def forward(self, u_BTF: Tensor) -> Tensor:
        """States [B, T, D] after every step, from a zero state."""
        weights = self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0
        return gru(u_BTF.movedim(-3, -1), weights).movedim(-1, -3)


def told_share(passed: Tensor, decay: float) -> Tensor:
    """How often a decoder is told the truth after ``passed`` minibatches: t / (t + exp(passed / t)), t the decay.

    Scheduled sampling (Bengio et al. 2015) by the inverse sigmoid.
    """
    return torch.sigmoid(math.log(decay) - passed / decay)
