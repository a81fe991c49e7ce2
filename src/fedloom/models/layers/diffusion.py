"""Denoising diffusion of vectors: noise schedule, level embedding, sampler (Ho et al. 2020; Song et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# (noised vectors [..., D], their levels [...] or one level) -> predicted noise [..., D]
Noise = Callable[[Tensor, Tensor], Tensor]
CLAMP = 4.0  # bound of a denoised standardised vector, in standard deviations


def signal_share(levels: int, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> Tensor:
    """Share of signal variance (alpha bar) at each of ``levels`` noise levels, [levels], falling.

    Cosine schedule of Nichol and Dhariwal 2021 (offset 0.008, single-step beta at most 0.999).
    """
    at = torch.arange(levels + 1, dtype=torch.float64) / levels
    curve = torch.cos((at + 0.008) / 1.008 * math.pi / 2).square()
    beta = (1 - curve[1:] / curve[:-1]).clamp(max=0.999)
    return (1 - beta).cumprod(0).to(dtype=dtype, device=device)


def level_code(level: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Sines and cosines of noise levels [...], [..., width]; frequencies fall from 1 to 1/1000."""
    half = width // 2
    frequency = 1000.0 ** (-torch.arange(half, dtype=dtype, device=level.device) / half)
    angle = level[..., None].to(dtype) * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)


def add_noise(clean: Tensor, noise: Tensor, share: Tensor) -> Tensor:
    """Vectors [..., D] at a noise level with signal share ``share`` [...]."""
    return share.sqrt()[..., None] * clean + (1 - share).sqrt()[..., None] * noise


def denoised(noised: Tensor, predicted: Tensor, share: Tensor) -> Tensor:
    """The clean vector that ``predicted`` noise implies, [..., D]."""
    return (noised - (1 - share).sqrt()[..., None] * predicted) / share.sqrt()[..., None]


def ddim(predict: Noise, start: Tensor, share: Tensor, steps: int) -> Tensor:
    """Deterministic sampling (DDIM, eta 0) from noise ``start`` [..., D] in ``steps`` evenly spaced levels."""
    levels = len(share)
    visited = torch.linspace(levels - 1, 0, steps).round().long().tolist()
    z = start
    for here, there in zip(visited, [*visited[1:], -1], strict=True):
        epsilon = predict(z, torch.tensor(here, device=z.device))
        clean = denoised(z, epsilon, share[here]).clamp(-CLAMP, CLAMP)
        if there < 0:
            return clean
        # Clamping moves the clean vector, so the noise that belongs to it moves too.
        epsilon = (z - share[here].sqrt() * clean) / (1 - share[here]).sqrt()
        z = share[there].sqrt() * clean + (1 - share[there]).sqrt() * epsilon
    return z
