"""GRUs whose copies run as one program of batched matrix products, over whole sequences and step by step.

Parameters have torch's names and order (reset, update, new), values and gradients are torch's. Axes are [..., T, F, B]
as those of ``lstm``. A layer keeps its gates, so that its gradient is one small product a step, and those by inputs and
weights one product for all steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.models.layers.lstm import Mapped, as_rows, full_products, to_front


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
            weights = self._weights(layer)
            with full_products(x_TFB):
                x_TFB, _ = _Layer.apply(x_TFB.to(weights[0].dtype), *weights)
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


def _tanh(x: Tensor) -> Tensor:
    return 2 * torch.sigmoid(2 * x) - 1  # torch's tanh takes several times as long on a CPU


def _in_order(tensor: Tensor) -> Tensor:
    """[..., T, F, B] as [T, N, F, B], leading axes as one."""
    return tensor.reshape(-1, *tensor.shape[-3:]).transpose(0, 1)


def _before(states_TNDB: Tensor) -> Tensor:
    """The state that every step finds."""
    return torch.cat([torch.zeros_like(states_TNDB[:1]), states_TNDB[:-1]])


class _Layer(torch.autograd.Function):
    """(x [..., T, F, B], W_ih [..., 3D, F], W_hh [..., 3D, D], b_ih, b_hh [..., 3D]) -> states [..., T, D, B], gates.

    Gates [..., T, 4D, B] are reset, update, twice the state's share of the new one, and the new one.
    """

    @staticmethod
    def forward(x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> tuple[Tensor, Tensor]:
        shape, width = x.shape, w_hh.shape[-1]
        both = 2 * width
        w_ih, w_hh, b_ih, b_hh = as_rows(w_ih, 2), as_rows(w_hh, 2).clone(), as_rows(b_ih, 1), as_rows(b_hh, 1).clone()
        for doubled in (w_hh, b_hh):  # tanh(a) = 2 sigmoid(2a) - 1: torch's tanh takes several times as long on a CPU
            doubled[:, both:] *= 2
        given = torch.matmul(w_ih, _in_order(x)) + b_ih[..., None]
        given[..., both:, :] *= 2
        alone = (given[..., :both, :] + b_hh[:, :both, None], b_hh[:, both:, None].expand_as(given[..., both:, :]))
        h = x.new_zeros((len(w_hh), width, shape[-1]))
        states: list[Tensor] = []
        gates: list[Tensor] = []
        news: list[Tensor] = []
        for base, given_new in zip(torch.cat(alone, -2).unbind(), given[..., both:, :].unbind(), strict=True):
            gate = torch.baddbmm(base, w_hh, h)
            reset_update, shown = gate.split([both, width], 1)
            reset, update = reset_update.sigmoid_().chunk(2, 1)
            new = torch.addcmul(given_new, reset, shown).sigmoid_().mul_(2).sub_(1)
            h = torch.lerp(new, h, update)
            for kept, value in ((states, h), (gates, gate), (news, new)):
                kept.append(value)
        kept_gates = torch.cat([torch.stack(gates, 1), torch.stack(news, 1)], -2)
        return torch.stack(states, 1).view(*shape[:-2], width, -1), kept_gates.view(*shape[:-2], 4 * width, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:3], *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, ...]:
        with full_products(grad):
            found: tuple[Tensor, ...] = _Gradient.apply(*ctx.saved_tensors, grad)
        return found

    @staticmethod
    def vmap(info: Any, in_dims: Mapped, *args: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _Layer.apply(*to_front(info.batch_size, in_dims, args)), (0, 0)


class _Gradient(torch.autograd.Function):
    """The gradient of ``_Layer`` by its five tensors; a function of its own, so that vmap finds its rule."""

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, states: Tensor, gates: Tensor, grad: Tensor
    ) -> tuple[Tensor, ...]:
        width, before = w_hh.shape[-1], _before(_in_order(states))
        reset, update, shown, new = _in_order(gates).split(width, -2)
        by_new = (1 - update) * (1 - new.square())
        by_reset, by_update = by_new * reset * (1 - reset) * shown / 2, (before - new) * update * (1 - update)
        # What a change of the state after a step does to the four gates' inputs: only its share by time is sequential.
        to_hidden = torch.stack([by_reset, by_update, by_new * reset], 2)
        back = as_rows(w_hh, 2).mT.contiguous()
        d, changes, hidden = torch.zeros_like(before[0]), [], []
        steps = zip(_in_order(grad).unbind(), to_hidden.unbind(), update.unbind(), strict=True)
        for grad_t, to_hidden_t, update_t in reversed(list(steps)):
            change = d + grad_t
            d_hidden = (change[:, None] * to_hidden_t).flatten(1, 2)
            d = torch.baddbmm(change * update_t, back, d_hidden)
            changes.append(change)
            hidden.append(d_hidden)
        d_hidden = torch.stack(hidden[::-1])
        d_given = torch.cat([d_hidden[..., : 2 * width, :], torch.stack(changes[::-1]) * by_new], -2)
        d_x = torch.matmul(as_rows(w_ih, 2).mT, d_given).transpose(0, 1)
        d_ih, d_hh = torch.matmul(d_given, _in_order(x).mT).sum(0), torch.matmul(d_hidden, before.mT).sum(0)
        biases = (each.sum((0, -1)).view(w_ih.shape[:-1]) for each in (d_given, d_hidden))
        return d_x.reshape(x.shape), d_ih.view(w_ih.shape), d_hh.view(w_hh.shape), *biases

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Mapped, *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _Gradient.apply(*to_front(info.batch_size, in_dims, args)), (0, 0, 0, 0, 0)
