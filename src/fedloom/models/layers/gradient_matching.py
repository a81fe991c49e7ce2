"""Gradient matching: windows that are moved until a model's gradient on them is that on a minibatch of real ones.

FeDaL, Sec. on GBE: L_match = |grad f(C) - grad f(x)|^2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad, grad_and_value

from fedloom.federation.stack import Bound, Tensors, matching
from fedloom.federation.tasks.series import SeriesWindows

RATE, FIRST, SECOND = 0.05, 0.9, 0.999  # Adam on the windows


def own_rows(core: Tensors) -> Tensor:
    """1 for each of the K rows that the client may have, else 0."""
    rows = core["learned"]
    return (torch.arange(len(rows), device=rows.device) < core["size"]).to(rows.dtype)


def learned(model: Bound, real: SeriesWindows, core: Tensors, last: int, steps: int) -> tuple[Tensors, Tensor]:
    """The core-set after ``steps`` towards the gradient of a real minibatch, and the mismatch [2] at both ends.

    It is the gradient of the masked error by a ``PatchTransformer``'s layer number ``last`` and head; what lies below
    is encoded once for the real windows, and anew for every step of the core-set's.
    """
    weights = {name: model[name] for name in matching(model.tensors, (f"layers.{last}", "norm", "head"))}

    def loss(weights: Tensors, coded: tuple[Tensor, ...], windows: SeriesWindows) -> Tensor:
        error: Tensor = model.holding(weights)(coded, windows, last, method="judged")
        return error

    def of_rows(weights: Tensors, x: Tensor) -> Tensor:
        windows = SeriesWindows(x, torch.ones_like(x), core["hidden"], own_rows(core))
        return loss(weights, model(windows, slice(last), method="encode"), windows)

    target = grad(loss)(weights, model(real, slice(last), method="encode"), real)
    return matched(of_rows, weights, target, core, steps)


def mismatch(loss: Callable[[Tensors, Tensor], Tensor], weights: Tensors, target: Tensors, rows_KL: Tensor) -> Tensor:
    """Squared distance between the gradients of ``loss(weights, rows)`` and ``target``, summed over ``weights``."""
    gradient = grad(loss)(weights, rows_KL)
    return torch.stack([(gradient[name] - value).square().sum() for name, value in target.items()]).sum()


def matched(
    loss: Callable[[Tensors, Tensor], Tensor], weights: Tensors, target: Tensors, start: Tensors, steps: int
) -> tuple[Tensors, Tensor]:
    """``steps`` of Adam on the windows ``start["learned"]`` towards ``target``, and the mismatch [2] at both ends.

    ``start`` holds Adam's state too, by the names of ``CoreSet``; so does what comes back.
    """
    rows, first, second, count = (start[name] for name in ("learned", "first", "second", "count"))
    begun = None
    for _ in range(steps):
        slope, distance = grad_and_value(lambda r: mismatch(loss, weights, target, r))(rows)
        begun = distance if begun is None else begun
        count = count + 1
        first, second = torch.lerp(slope, first, FIRST), torch.lerp(slope.square(), second, SECOND)
        unbiased = (second / (1 - SECOND**count)).sqrt() + 1e-8
        rows = rows - RATE * first / (1 - FIRST**count) / unbiased
    ends = torch.stack([distance if begun is None else begun, mismatch(loss, weights, target, rows)])
    return {"learned": rows, "first": first, "second": second, "count": count}, ends
