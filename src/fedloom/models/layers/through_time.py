"""A recurrent layer over whole sequences, with its gradient, whatever the number of its copies.

``torch.nn``'s recurrent layers run one copy at a time and have no batching rule under vmap. Here weights carry any
leading axes (the heads of all clients, say) and inputs the same ones. Axes are [..., T, F, B]: with the batch last
every gate of a step is one contiguous block.

A layer runs some copies at a time, so that their gates stay in the cache. For the gradient it keeps its inputs and
states, and of the gates what its cell says: what is not kept is computed anew, and memory stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

CHUNK_BYTES = {"cpu": 2**26, "cuda": 2**30}  # gates at work: caches hold them, calls cost little beside


class Pass(NamedTuple):
    """Some copies on their way through time.

    ``x`` [N, T, F, B] are inputs, ``weights`` [N, ...] those of the cell, of which the second is [N, ., D], ``states``
    [N, T, D, B] what stands after every step; ``kept`` [N, T, ., B] is what the cell keeps for the gradient. Steps are
    taken in ``order``, from a zero state.
    """

    x: Tensor
    weights: Sequence[Tensor]
    states: Tensor
    kept: Tensor
    order: Sequence[int]


class Cell(Protocol):
    """What one kind of layer does."""

    kept: int  # numbers that it keeps a number of the state

    def run(self, way: Pass) -> None:
        """Fill in the states, and what is kept."""

    def run_back(self, way: Pass, grad_NTDB: Tensor, out: Sequence[Tensor]) -> None:
        """Fill in the gradients by the inputs and every weight (``out``), given those by the states."""


def through_time(cell: Cell, x_TFB: Tensor, weights: Sequence[Tensor], reverse: bool = False) -> Tensor:
    """States [..., T, D, B] after every step of inputs [..., T, F, B], ``reverse`` from the last step to the first.

    Sums over many steps keep the precision of the weights, whatever products have elsewhere.
    """
    states: Tensor = _Layer.apply(cell, reverse, x_TFB.to(weights[0].dtype), *weights)[0]
    return states


class _Layer(torch.autograd.Function):
    """(cell, reverse, x, *weights) -> states, what the cell keeps."""

    @staticmethod
    def forward(cell: Cell, reverse: bool, x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        lead, hidden = weights[1].shape[:-2], weights[1].shape[-1]
        x, *rows = _as_rows(len(lead), x, *weights)
        copies, steps, _, batch = x.shape
        states = x.new_empty((copies, steps, hidden, batch))
        # Steps first in memory: matrix products write into whole blocks alone at full speed.
        kept = x.new_empty((steps, copies, cell.kept * hidden, batch)).transpose(0, 1)
        with _full_products(x):
            for chunk in _chunks(x, hidden):
                cell.run(Pass(x[chunk], [w[chunk] for w in rows], states[chunk], kept[chunk], _order(x, reverse)))
        return states.view(*lead, *states.shape[1:]), kept.unflatten(0, lead) if lead else kept[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.cell, ctx.reverse, *tensors = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        return None, None, *_Gradient.apply(ctx.cell, ctx.reverse, grad, *ctx.saved_tensors)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], cell: Cell, reverse: bool, *args: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _Layer.apply(cell, reverse, *_to_front(info.batch_size, in_dims[2:], args)), (0, 0)


class _Gradient(torch.autograd.Function):
    """(cell, reverse, gradient by states, states, what was kept, x, *weights) -> gradients by x and every weight.

    A function of its own, so that vmap finds its rule.
    """

    @staticmethod
    def forward(
        cell: Cell, reverse: bool, grad: Tensor, states: Tensor, kept: Tensor, x: Tensor, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        grad, states, kept, *given = _as_rows(weights[1].dim() - 2, grad, states, kept, x, *weights)
        out = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in given]
        with _full_products(x):
            for chunk in _chunks(given[0], states.shape[-2]):
                inputs, *own = (t[chunk] for t in given)
                way = Pass(inputs, own, states[chunk], kept[chunk], _order(inputs, reverse))
                cell.run_back(way, grad[chunk], [t[chunk] for t in out])
        return tuple(o.view(t.shape) for o, t in zip(out, (x, *weights), strict=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], cell: Cell, reverse: bool, *args: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _Gradient.apply(cell, reverse, *_to_front(info.batch_size, in_dims[2:], args)), (0,) * (len(args) - 3)


def _to_front(batch: int, in_dims: tuple[int | None, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Mapped axes become one more leading axis of every tensor."""
    return [
        t.expand(batch, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in zip(tensors, in_dims, strict=True)
    ]


def _full_products(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)


def _as_rows(leading: int, *tensors: Tensor) -> list[Tensor]:
    """All leading axes as one, [N, ...]."""
    return [tensor.flatten(0, leading - 1) if leading else tensor[None] for tensor in tensors]


def _chunks(x_NTFB: Tensor, hidden: int) -> Iterator[slice]:
    copies, steps, _, batch = x_NTFB.shape
    budget = CHUNK_BYTES.get(x_NTFB.device.type, CHUNK_BYTES["cuda"])
    width = max(1, budget // max(1, 4 * hidden * steps * batch * x_NTFB.element_size()))
    return (slice(begin, begin + width) for begin in range(0, copies, width))


def _order(x_NTFB: Tensor, reverse: bool) -> Sequence[int]:
    steps = range(x_NTFB.shape[1])
    return steps[::-1] if reverse else steps
