"""Noise on what leaves a client, added before the server sees it, so that the server need not be trusted.

Kinds and scales are those of Atlas, Sec. 5.5.2; the change that a client sends is clipped as in McMahan et al. 2018
(Learning Differentially Private Recurrent Language Models, Alg. 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedloom.errors import InputError
from fedloom.federation.randomness import bits, derive, normal, uniform
from fedloom.federation.stack import Tensors, along, lengths

Kind = Literal["gaussian", "laplace", "rademacher"]


@dataclass(frozen=True)
class UploadNoise:
    """What is done to every upload.

    ``scale``, in the units of the uploaded numbers, is the standard deviation of Gaussian noise, the b of Laplace's
    (whose deviation is 1.41 b), the step of Rademacher's. ``clip`` bounds the L2 norm, over all numbers of an upload
    together, of how far it may lie from what the server holds; None bounds nothing. Only Gaussian noise on clipped
    uploads carries a guarantee of privacy here; scale 0 shows what clipping alone costs.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}  # a key that it does not have is an error in config

    kind: Kind
    scale: float
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.scale < 0:
            raise ValueError(f"noise.scale: expected at least 0, found {self.scale}")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"noise.clip: expected more than 0, found {self.clip}")


def unit_noise(kind: Kind, keys: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Independent draws [C, *shape] of noise at scale 1 for clients with ``keys`` [C]."""
    if kind == "gaussian":
        return normal(keys, shape, dtype)
    if kind == "laplace":
        centred = uniform(keys, shape, torch.float64) - 0.5
        return (-centred.sign() * torch.log1p(-2 * centred.abs())).to(dtype)
    signs = bits(keys, math.prod(shape)) >> 63  # 0 or -1
    return (2 * signs + 1).to(dtype).reshape(len(keys), *shape)


def disturbed(noise: UploadNoise, sent: Tensors, held: Tensors, keys: Tensor) -> tuple[Tensors, Tensor]:
    """What reaches the server of ``sent`` [c, ...], and how far each upload lay from ``held`` before, [c].

    ``held`` is what the server has under the same names, ``keys`` [c] are the clients' for this upload. Raises
    InputError where something that is sent has no number there to be clipped around.
    """
    for name, value in sent.items():
        if name not in held or not value.is_floating_point():
            raise InputError(f"protocol.noise: expected uploads of what the server sends down, found {name!r}")
    change = {name: value - held[name] for name, value in sent.items()}
    length = lengths(change)
    shrink = torch.ones_like(length) if noise.clip is None else (noise.clip / length.clamp(min=noise.clip))
    received = {}
    for name, value in change.items():
        share = along(shrink.to(value.dtype), value)
        drawn = unit_noise(noise.kind, derive(keys, name), tuple(value.shape[1:]), value.dtype)
        received[name] = held[name] + share * value + noise.scale * drawn
    return received, length
