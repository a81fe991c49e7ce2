"""LSTMs whose copies, whatever their number, run as one program of batched matrix products.

``torch.nn.LSTM`` runs one copy at a time and has no batching rule under vmap. Here weights carry any leading axes (the
heads of all clients, say) and inputs the same ones; parameters have torch's names, gates torch's order (input, forget,
cell, output), and values and gradients are torch's. Axes are [..., T, F, B]: with the batch last every gate of a step
is one contiguous block.

A layer keeps its inputs and states for the gradient and computes the gates anew, some copies at a time, so that memory
stays small and the gates stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

CHUNK_BYTES = {"cpu": 2**24, "cuda": 2**30}  # gates of the copies at work: what caches hold, what fills a GPU


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
    states: Tensor = _Layer.apply(x_TFB.to(into.dtype), into, back, bias, reverse)
    return states


# -- one layer in one direction, with its gradient ------------------------------------------------------------------

Mapped = tuple[int | None, ...]


def to_front(batch: int, in_dims: Mapped, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Mapped axes become one more leading axis of every tensor."""
    return [
        t.expand(batch, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in zip(tensors, in_dims, strict=True)
    ]


class _Layer(torch.autograd.Function):
    """(x [..., T, F, B], W_ih [..., 4D, F], W_hh [..., 4D, D], bias [..., 4D]) -> states [..., T, D, B]."""

    @staticmethod
    def forward(x: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, reverse: bool) -> Tensor:
        lead, hidden = w_hh.shape[:-2], w_hh.shape[-1]
        x, w_ih, w_hh, bias = as_rows(x, 3), as_rows(w_ih, 2), as_rows(w_hh, 2), as_rows(bias, 1)
        states = x.new_empty((*x.shape[:2], hidden, x.shape[-1]))
        with full_products(x):
            for rows in _chunks(x, hidden):
                _run(x[rows], w_ih[rows], w_hh[rows], bias[rows], states[rows], reverse)
        return states.view(*lead, *states.shape[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.reverse = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *_Gradient.apply(*ctx.saved_tensors, grad, ctx.reverse), None

    @staticmethod
    def vmap(info: Any, in_dims: Mapped, *args: Any) -> tuple[Tensor, int]:
        *tensors, reverse = args
        return _Layer.apply(*to_front(info.batch_size, in_dims[:-1], tuple(tensors)), reverse), 0


class _Gradient(torch.autograd.Function):
    """The gradient of ``_Layer`` by its four tensors; a function of its own, so that vmap finds its rule."""

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, states: Tensor, grad: Tensor, reverse: bool
    ) -> tuple[Tensor, ...]:
        flat = [as_rows(x, 3), as_rows(w_ih, 2), as_rows(w_hh, 2), as_rows(bias, 1)]
        states, grad = as_rows(states, 3), as_rows(grad, 3)
        out = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in flat]
        with full_products(x):
            for rows in _chunks(flat[0], states.shape[-2]):
                given = (flat[0][rows], flat[1][rows], flat[2][rows], flat[3][rows])
                _run_back(*given, states[rows], grad[rows], [t[rows] for t in out], reverse)
        return tuple(o.view(t.shape) for o, t in zip(out, (x, w_ih, w_hh, bias), strict=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Mapped, *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        *tensors, reverse = args
        return _Gradient.apply(*to_front(info.batch_size, in_dims[:-1], tuple(tensors)), reverse), (0, 0, 0, 0)


def full_products(x: Tensor) -> torch.autocast:
    """Sums over many steps keep the precision of the weights, whatever products have elsewhere."""
    return torch.autocast(x.device.type, enabled=False)


def as_rows(tensor: Tensor, kept: int) -> Tensor:
    """All leading axes as one, [N, ...]."""
    return tensor.reshape(-1, *tensor.shape[tensor.dim() - kept :])


def _chunks(x_NTFB: Tensor, hidden: int) -> Iterator[slice]:
    copies, steps, _, batch = x_NTFB.shape
    budget = CHUNK_BYTES.get(x_NTFB.device.type, CHUNK_BYTES["cuda"])
    width = max(1, budget // max(1, 4 * hidden * steps * batch * x_NTFB.element_size()))
    return (slice(begin, begin + width) for begin in range(0, copies, width))


def _order(steps: int, reverse: bool) -> list[int]:
    return list(reversed(range(steps))) if reverse else list(range(steps))


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


def _run(x_NTFB: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, states_NTDB: Tensor, reverse: bool) -> None:
    """Fill in the states after every step, from a zero state."""
    weight, width = _joined(w_ih, w_hh, bias), x_NTFB.shape[2]
    given_NKB = x_NTFB.new_ones((len(x_NTFB), weight.shape[-1], x_NTFB.shape[-1]))
    given_NKB[:, width:-1] = 0
    cell_NDB = torch.zeros_like(given_NKB[:, width:-1])
    for step in _order(x_NTFB.shape[1], reverse):
        given_NKB[:, :width] = x_NTFB[:, step]
        _, (come, keep, new, out) = _gates(weight, given_NKB)
        cell_NDB = torch.addcmul(keep * cell_NDB, come, new)
        given_NKB[:, width:-1] = states_NTDB[:, step] = _tanh(cell_NDB).mul_(out)


def _run_back(
    x_NTFB: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    bias: Tensor,
    states_NTDB: Tensor,
    grad_NTDB: Tensor,
    out: list[Tensor],
    reverse: bool,
) -> None:
    """Backpropagation through time into ``out``: the gradients by x, W_ih, W_hh and bias."""
    d_x, d_ih, d_hh, d_bias = out
    order, width = _order(x_NTFB.shape[1], reverse), x_NTFB.shape[2]
    doubled = _joined(w_ih, w_hh, bias)
    state = cell = torch.zeros_like(states_NTDB[:, 0])
    one = torch.ones_like(cell[:, :1])
    kept = []
    for step in order:
        given = torch.cat([x_NTFB[:, step], state, one], 1)
        gates, (come, keep, new, leave) = _gates(doubled, given)
        before, cell, state = cell, torch.addcmul(keep * cell, come, new), states_NTDB[:, step]
        kept.append((given, gates, before, _tanh(cell)))
    back = torch.cat([w_ih, w_hh], -1).transpose(1, 2)
    d_weight = torch.zeros_like(doubled)
    d_state = d_cell = torch.zeros_like(cell)
    for step in reversed(order):
        given, gates, before, shown = kept.pop()
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
