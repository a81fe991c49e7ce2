"""Core-sets: a few windows whose gradient is that of a client's data, and the noise that blurs them.

FeDaL, Sec. on GBE: L_match = |grad f(C) - grad f(x)|^2; before upload the amplitudes of C's Fourier transform are
noised and its phases kept. The noise is obfuscation: it gives no guarantee of privacy.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import grad, grad_and_value

from fedloom.federation.masking import hide, visible_scale
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.series import SeriesWindows

Tensors = dict[str, Tensor]

LARGEST = 5.0  # in deviations of a row
DRAW_AT_ONCE = 16  # rows that one minibatch gives
RATE, FIRST, SECOND = 0.05, 0.9, 0.999  # Adam on the windows


class CoreSet(nn.Module):
    """K windows [K, L] of a client as buffers: ``initial``, ``learned`` and ``sent``.

    ``size`` [1] is how many of them the client may have, ``turn`` [1] how many minibatches have given rows, ``hidden``
    [K, n] each row's own mask; ``first``, ``second`` and ``count`` are Adam's.
    """

    def __init__(self, rows: int, length: int, tokens: int) -> None:
        super().__init__()
        for name in ("initial", "learned", "sent", "first", "second"):
            self.register_buffer(name, torch.zeros(rows, length))
        for name in ("size", "turn", "count"):
            self.register_buffer(name, torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(rows, tokens, dtype=torch.bool))


def draw(x_BL: Tensor, seen_BL: Tensor, old: Tensors, masks_Kn: Tensor) -> Tensors:
    """The core-set after one more minibatch of windows has given its next ``DRAW_AT_ONCE`` rows.

    Rows are normalised, 0 where nothing was observed; ``masks_Kn`` are uniform draws for the rows' masks.
    """
    mean, sd = visible_scale(x_BL, seen_BL)
    place = torch.arange(len(masks_Kn), device=x_BL.device) - DRAW_AT_ONCE * old["turn"]
    at = place.clamp(0, min(DRAW_AT_ONCE, len(x_BL)) - 1).long()
    fresh = ((place >= 0) & (place < DRAW_AT_ONCE))[:, None]
    rows = torch.where(fresh, ((x_BL - mean) / sd * seen_BL)[at], old["initial"])
    return {"initial": rows, "learned": rows, "hidden": hide(masks_Kn, torch.ones_like(rows)), "turn": old["turn"] + 1}


def standardised(rows_KL: Tensor) -> Tensor:
    """Each row with mean 0 and deviation 1, after it was cut at ``LARGEST``."""
    rows_KL = rows_KL.clamp(-LARGEST, LARGEST)
    centred = rows_KL - rows_KL.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-10).sqrt()


def amplitude_noise(rows_KL: Tensor, normal_KL: Tensor, strength: float) -> Tensor:
    """Rows whose Fourier amplitudes are multiplied by max(0, 1 + strength * normal), phases kept.

    A factor that is real and not negative moves no phase, those of the constant and the Nyquist bin included.
    """
    spectrum = torch.fft.rfft(rows_KL)
    factor = (1 + strength * normal_KL[..., : spectrum.shape[-1]]).clamp(min=0)
    return torch.fft.irfft(spectrum * factor, n=rows_KL.shape[-1])


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
