"""GRUs whose copies run as one program of batched matrix products, over whole sequences and step by step.

Parameters have torch's names and order (reset, update, new), values and gradients are torch's. Axes are those of
``through_time``, [..., T, F, B].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedloom.models.layers.through_time import Pass, through_time


class StackedGRU(nn.Module):
    """Layers, each fed by the states of the one below."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden, self.layers, bound = hidden, layers, 1 / math.sqrt(hidden)
        for layer in range(layers):
            shapes = {"weight_ih": (3 * hidden, inputs if layer == 0 else hidden), "weight_hh": (3 * hidden, hidden)}
            for name, shape in (*shapes.items(), ("bias_ih", (3 * hidden,)), ("bias_hh", (3 * hidden,))):
                drawn = torch.empty(*shape).uniform_(-bound, bound)
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(drawn))

    def _weights(self, layer: int) -> tuple[Tensor, ...]:
        return tuple(getattr(self, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

    def forward(self, x_TFB: Tensor) -> Tensor:
        """States [T, D, B] of the top layer after every step, from a zero state."""
        for layer in range(self.layers):
            x_TFB = gru(x_TFB, self._weights(layer))
        return x_TFB

    def step(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The states [..., D] of every layer, bottom first, after an input [..., F] that finds them at ``states``."""
        after = []
        for layer, h in enumerate(states):
            w_ih, w_hh, b_ih, b_hh = self._weights(layer)
            from_input, from_state = (x @ w_ih.T + b_ih).chunk(3, -1), (h @ w_hh.T + b_hh).chunk(3, -1)
            reset, update = (torch.sigmoid(i + s) for i, s in zip(from_input[:2], from_state[:2], strict=True))
            x = torch.lerp(_tanh(from_input[2] + reset * from_state[2]), h, update)
            after.append(x)
        return tuple(after)


def gru(x_TFB: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """States [..., T, D, B] of one layer after every step, from a zero state.

    ``weights`` are W_ih [..., 3D, F], W_hh [..., 3D, D] and their biases [..., 3D].
    """
    return through_time(_GRU, x_TFB, weights)


def _tanh(x: Tensor) -> Tensor:
    return 2 * torch.sigmoid(2 * x) - 1  # torch's tanh takes several times as long on a CPU


def _joined(w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """Weights [N, 4D, F + D + 1] of input, state and one.

    Rows are reset, update, and the shares of the new state that come from the state and from the input.
    """
    both, inputs = 2 * w_hh.shape[-1], w_ih.shape[-1]
    given, kept = torch.cat([w_ih, b_ih[..., None]], -1), torch.cat([w_hh, b_hh[..., None]], -1)
    weight = w_hh.new_zeros((len(w_hh), 2 * both, inputs + kept.shape[-1]))
    weight[:, : both + both // 2, inputs:] = kept
    weight[:, both + both // 2 :, :inputs] = given[:, both:, :-1]
    weight[:, both + both // 2 :, -1] = given[:, both:, -1]
    weight[:, :both, :inputs] = given[:, :both, :-1]
    weight[:, :both, -1] += given[:, :both, -1]
    return weight


class _Gru:
    """A layer's arithmetic; weights are W_ih [N, 3D, F], W_hh [N, 3D, D] and two biases [N, 3D].

    It keeps the gates [N, T, 4D, B]: reset, update, twice the state's share of the new state, and the new state. As
    tanh(a) = 2 sigmoid(2a) - 1, no tanh is needed, which in torch takes nine times as long on a CPU.
    """

    kept = 4

    def run(self, way: Pass) -> None:
        """States after every step."""
        x_NTFB, weights, states_NTDB, kept, order = way
        weight, width, hidden = _joined(*weights), x_NTFB.shape[2], states_NTDB.shape[2]
        weight[:, 2 * hidden :] *= 2
        given_NKB = x_NTFB.new_ones((len(x_NTFB), weight.shape[-1], x_NTFB.shape[-1]))
        state = given_NKB[:, width:-1]
        state.zero_()
        for step in order:
            given_NKB[:, :width] = x_NTFB[:, step]
            gates = kept[:, step].baddbmm_(weight, given_NKB, beta=0)
            gates[:, : 2 * hidden].sigmoid_()
            reset, update, shown, new = gates.split(hidden, 1)
            new.addcmul_(reset, shown).sigmoid_().mul_(2).sub_(1)
            states_NTDB[:, step] = torch.lerp(new, state, update, out=state)

    def run_back(self, way: Pass, grad_NTDB: Tensor, out: Sequence[Tensor]) -> None:
        """Backpropagation through time: the gradients by x, W_ih, W_hh and both biases."""
        x_NTFB, weights, states_NTDB, kept, order = way
        weight, width, hidden = _joined(*weights), x_NTFB.shape[2], states_NTDB.shape[2]
        back = weight[..., :-1].transpose(1, 2).contiguous()
        zero = torch.zeros_like(states_NTDB[:, 0])
        given_NKB = x_NTFB.new_ones((len(x_NTFB), weight.shape[-1], x_NTFB.shape[-1]))
        d_gates = torch.empty_like(kept[:, 0], memory_format=torch.contiguous_format)
        d_reset, d_update, d_shown, d_new = d_gates.split(hidden, 1)
        d_x, d_ih, d_hh, d_given_bias, d_state_bias = out
        d_weight, d_state = torch.zeros_like(weight), zero
        for step, before in reversed(list(zip(order, [None, *order[:-1]], strict=True))):
            given_NKB[:, :width] = x_NTFB[:, step]
            given_NKB[:, width:-1] = state = zero if before is None else states_NTDB[:, before]
            reset, update, shown, new = kept[:, step].split(hidden, 1)
            d_state = d_state + grad_NTDB[:, step]
            passed = torch.addcmul(d_state, d_state, update, value=-1)
            torch.mul(passed, new, out=d_new)
            torch.addcmul(passed, d_new, new, value=-1, out=d_new)
            torch.mul(d_new, reset, out=d_shown)
            torch.mul(d_shown, shown, out=d_reset).mul_(0.5)
            d_reset.addcmul_(d_reset, reset, value=-1)
            torch.sub(state, new, out=d_update).mul_(d_state).mul_(update)
            d_update.addcmul_(d_update, update, value=-1)
            d_given = torch.bmm(back, d_gates)
            d_x[:, step] = d_given[:, :width]
            d_weight.baddbmm_(d_gates, given_NKB.mT)
            d_state = torch.addcmul(d_given[:, width:], d_state, update)
        both = 2 * hidden
        d_hh.copy_(d_weight[:, : both + hidden, width:-1])
        d_state_bias.copy_(d_weight[:, : both + hidden, -1])
        for of_gates, rows in ((slice(both), slice(both)), (slice(both, None), slice(both + hidden, None))):
            d_ih[:, of_gates] = d_weight[:, rows, :width]
            d_given_bias[:, of_gates] = d_weight[:, rows, -1]


_GRU = _Gru()
