"""Counter-based randomness: a draw depends on (seed, site, round, step, client) and on nothing else.

There is no generator whose position could depend on chunk size, on which clients take part, on the device or on an
interruption. A 64-bit key is mixed from the counters, and SplitMix64 (Steele, Lea, Flood 2014) runs from it, in
integer arithmetic that is the same on every device.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch's own is arithmetic on signed integers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * _MIX_1
    x = (x ^ _shift(x, 27)) * _MIX_2
    return x ^ _shift(x, 31)


def name_key(name: str) -> int:
    """Stable signed 64-bit key of a name (a client's id, a site of randomness)."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def client_keys(ids: list[str], device: torch.device | str = "cpu") -> Tensor:
    """Keys [C] (int64) of the clients, by name, so that reordering clients moves no draw."""
    return torch.tensor([name_key(i) for i in ids], dtype=torch.int64, device=device)


def derive(keys: Tensor, *counters: int | str) -> Tensor:
    """Mix counters (seed, site, round, step ...) into ``keys`` [C]; gives fresh keys [C]."""
    for counter in counters:
        word = name_key(counter) if isinstance(counter, str) else counter
        keys = _mix(keys + _GOLDEN + _mix(torch.full_like(keys, word) * _GOLDEN))
    return keys


def bits(keys: Tensor, n: int) -> Tensor:
    """``n`` 64-bit words for each key: [C] -> [C, n], int64."""
    steps = torch.arange(1, n + 1, dtype=torch.int64, device=keys.device)
    return _mix(keys[:, None] + steps[None, :] * _GOLDEN)


def uniform(keys: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform draws in (0, 1), [C, *shape]: the 53 high bits plus one half, never 0 or 1 in float64."""
    words = _shift(bits(keys, math.prod(shape)), 11).to(torch.float64)
    tiny = torch.finfo(dtype).eps / 4
    return ((words + 0.5) / 2**53).clamp(tiny, 1 - 2 * tiny).to(dtype).reshape(len(keys), *shape)


def normal(keys: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal draws [C, *shape], through the inverse distribution function of a uniform draw."""
    u = uniform(keys, shape, torch.float64)
    return (math.sqrt(2.0) * torch.erfinv(2 * u - 1)).to(dtype)


def orders(keys: Tensor, sizes: Tensor, longest: int, first: int) -> Tensor:
    """The ``first`` entries of a random order of 0..sizes-1 for each key, [C, first]; ``longest`` beyond the size.

    Every client's order depends on its own key and size alone.
    """
    words = bits(keys, longest)
    beyond = torch.arange(longest, device=keys.device)[None, :] >= sizes[:, None]
    words = words.masked_fill(beyond, torch.iinfo(torch.int64).max)
    # Where few are taken of many, sorting all of them would cost more than a training step.
    few = 4 * first < longest
    order = words.topk(first, dim=1, largest=False).indices if few else words.argsort(dim=1, stable=True)[:, :first]
    return order.masked_fill(beyond[:, :first], longest)


def draw_clients(clients: Tensor, share: float, seed: int, round_: int) -> Tensor:
    """Which clients take part in a round: a sorted LongTensor of positions, max(1, round(share * C)) of them.

    ``clients`` are the client keys [C]. The draw is keyed by (seed, round), hence the same for every method.
    """
    count = max(1, round(share * len(clients)))
    if count >= len(clients):
        return torch.arange(len(clients), device=clients.device)
    words = bits(derive(clients, seed, "participation", round_), 1)[:, 0]
    return words.argsort()[:count].sort().values


def initial_seed(seed: int, key: int) -> int:
    """Seed of torch's own generator while one module draws its initial weights."""
    mixed = derive(torch.tensor([key], dtype=torch.int64), seed, "initial weights")
    return int(_shift(mixed, 1))
