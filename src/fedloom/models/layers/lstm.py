"""LSTMs whose copies, whatever their number, run as one program of batched matrix products.

Parameters have torch's names, gates torch's order (input, forget, cell, output), and values and gradients are torch's.
Axes are those of ``through_time``, [..., T, F, B].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fedloom.models.layers.through_time import Pass, through_time


class LSTM(nn.Module):
    """Stacked layers, each fed by the states of the one below; ``copies`` are leading axes of every parameter."""

    def __init__(
        self, inputs: int, hidden: int, layers: int = 1, bidirectional: bool = False, copies: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        for layer in range(layers):
            width = inputs if layer == 0 else hidden * (2 if bidirectional else 1)
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (4 * hidden, width), "weight_hh": (4 * hidden, hidden)}
            shapes |= {"bias_ih": (4 * hidden,), "bias_hh": (4 * hidden,)}
            for direction in ("", "_reverse") if bidirectional else ("",):
                for name, shape in shapes.items():
                    drawn = torch.empty(*copies, *shape).uniform_(-bound, bound)
                    self.register_parameter(f"{name}_l{layer}{direction}", nn.Parameter(drawn))

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters by torch's names."""
        return dict(self.named_parameters())

    def forward(self, x_TFB: Tensor) -> Tensor:
        return lstm(x_TFB, self.weights)


def lstm(x_TFB: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """States [..., T, D, B] of the top layer after every step (of both directions: [..., T, 2D, B])."""
    layer = 0
    while f"weight_ih_l{layer}" in weights:
        states = [_states(x_TFB, weights, f"l{layer}", reverse=False)]
        if f"weight_ih_l{layer}_reverse" in weights:
            states.append(_states(x_TFB, weights, f"l{layer}_reverse", reverse=True))
        x_TFB = torch.cat(states, -2) if len(states) > 1 else states[0]
        layer += 1
    return x_TFB


def lstm_step(x: Tensor, state: tuple[Tensor, ...], weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """State and cell [..., D] of one layer after an input [..., F] that finds them at ``state``."""
    h, cell = state
    bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
    return gated(x @ weights["weight_ih_l0"].mT + h @ weights["weight_hh_l0"].mT + bias, cell)


def gated(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """State and cell [..., D] from gates [..., 4D] before their nonlinearities and the cell that they find."""
    come, keep, new, out = gates.chunk(4, -1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(come) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def final_states(x_TFB: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Final states [..., 2D, B] of one bidirectional layer: forward after the last step, backward after the first."""
    forward = _states(x_TFB, weights, "l0", reverse=False)[..., -1, :, :]
    backward = _states(x_TFB, weights, "l0_reverse", reverse=True)[..., 0, :, :]
    return torch.cat([forward, backward], -2)


def _states(x_TFB: Tensor, weights: Mapping[str, Tensor], layer: str, reverse: bool) -> Tensor:
    bias = weights[f"bias_ih_{layer}"] + weights[f"bias_hh_{layer}"]
    into, back = weights[f"weight_ih_{layer}"], weights[f"weight_hh_{layer}"]
    return through_time(_LSTM, x_TFB, (into, back, bias), reverse)


def _joined(w_ih: Tensor, w_hh: Tensor, bias: Tensor) -> Tensor:
    """Weights [N, 4D, F + D + 1] of input, state and one, with the cell gate's rows doubled.

    As tanh(a) = 2 sigmoid(2a) - 1, one sigmoid then serves all gates: torch's tanh takes nine times as long on a CPU.
    """
    weight = torch.cat([w_ih, w_hh, bias[..., None]], -1)
    weight[:, 2 * w_hh.shape[-1] : 3 * w_hh.shape[-1]] *= 2
    return weight


def _tanh(x: Tensor) -> Tensor:
    return (2 * x).sigmoid_().mul_(2).sub_(1)


def _gates(weight: Tensor, given_NKB: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A step's gates after their nonlinearities, [N, 4D, B], and each of the four, [N, D, B]."""
    gates = torch.bmm(weight, given_NKB).sigmoid_()
    each = gates.split(gates.shape[1] // 4, 1)
    each[2].mul_(2).sub_(1)
    return gates, each


class _Lstm:
    """A layer's arithmetic; weights are W_ih [N, 4D, F], W_hh [N, 4D, D] and a bias [N, 4D]."""

    kept = 0

    def run(self, way: Pass) -> None:
        """States after every step."""
        x_NTFB, weights, states_NTDB, _, order = way
        weight, width = _joined(*weights), x_NTFB.shape[2]
        given_NKB = x_NTFB.new_ones((len(x_NTFB), weight.shape[-1], x_NTFB.shape[-1]))
        given_NKB[:, width:-1] = 0
        cell_NDB = torch.zeros_like(given_NKB[:, width:-1])
        for step in order:
            given_NKB[:, :width] = x_NTFB[:, step]
            _, (come, keep, new, out) = _gates(weight, given_NKB)
            cell_NDB = torch.addcmul(keep * cell_NDB, come, new)
            given_NKB[:, width:-1] = states_NTDB[:, step] = _tanh(cell_NDB).mul_(out)

    def run_back(self, way: Pass, grad_NTDB: Tensor, out: Sequence[Tensor]) -> None:
        """Backpropagation through time: the gradients by x, W_ih, W_hh and bias."""
        x_NTFB, weights, states_NTDB, _, order = way
        d_x, d_ih, d_hh, d_bias = out
        width, doubled = x_NTFB.shape[2], _joined(*weights)
        state = cell = torch.zeros_like(states_NTDB[:, 0])
        one = torch.ones_like(cell[:, :1])
        known = []
        for step in order:
            given = torch.cat([x_NTFB[:, step], state, one], 1)
            gates, (come, keep, new, leave) = _gates(doubled, given)
            before, cell, state = cell, torch.addcmul(keep * cell, come, new), states_NTDB[:, step]
            known.append((given, gates, before, _tanh(cell)))
        back = torch.cat([*weights[:2]], -1).transpose(1, 2)
        d_weight = torch.zeros_like(doubled)
        d_state = d_cell = torch.zeros_like(cell)
        for step in reversed(order):
            given, gates, before, shown = known.pop()
            come, keep, new, leave = gates.split(shown.shape[1], 1)
            d_state = d_state + grad_NTDB[:, step]
            d_cell = torch.addcmul(d_cell, d_state, leave - leave * shown.square())
            d_gates = torch.addcmul(gates, gates, gates, value=-1)
            d_come, d_keep, d_new, d_leave = d_gates.split(shown.shape[1], 1)
            d_come.mul_(new).mul_(d_cell)
            d_keep.mul_(before).mul_(d_cell)
            torch.mul(come - come * new.square(), d_cell, out=d_new)
            d_leave.mul_(shown).mul_(d_state)
            d_cell = d_cell * keep
            d_given = torch.bmm(back, d_gates)
            d_x[:, step], d_state = d_given[:, :width], d_given[:, width:]
            d_weight.baddbmm_(d_gates, given.mT)
        d_ih.copy_(d_weight[..., :width])
        d_hh.copy_(d_weight[..., width:-1])
        d_bias.copy_(d_weight[..., -1])


_LSTM = _Lstm()
