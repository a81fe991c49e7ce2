"""Many copies of one module as one set of stacked tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedloom.federation.randomness import initial_seed

Tensors = dict[str, Tensor]

_FORBIDDEN = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


class _AnyMethod(nn.Module):
    """Lets ``functional_call`` reach every method of a module, not ``forward`` alone."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, method: str | Callable[..., Any], *args: Any) -> Any:
        return getattr(self.module, method)(*args) if isinstance(method, str) else method(self.module, *args)


class Bound:
    """A module bound to one client's tensors: call it like the module, or name another of its methods.

    ``method`` may also be a function that takes the module first: it runs with the bound tensors in place.
    """

    def __init__(self, skeleton: nn.Module, tensors: Tensors) -> None:
        self.tensors = tensors
        self._call = _AnyMethod(skeleton)

    def __call__(self, *args: Any, method: str | Callable[..., Any] = "forward") -> Any:
        """Result of ``module.method(*args)`` with the bound tensors as its parameters and buffers."""
        named = {f"module.{name}": value for name, value in self.tensors.items()}
        return functional_call(self._call, named, (method, *args))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def holding(self, tensors: Tensors) -> Bound:
        """The same module with these tensors in place of its own of the same names."""
        return Bound(self._call.module, self.tensors | tensors)


class StackedBound(Bound):
    """A module bound to all clients' tensors [C, ...]: a call runs every client on its own row of the arguments."""

    def __call__(self, *args: Any, method: str | Callable[..., Any] = "forward") -> Any:
        """Result of every client's ``module.method`` on its row of each argument [C, ...]."""

        def one(tensors: Tensors, *rows: Any) -> Any:
            return functional_call(self._call, tensors, (method, *rows))

        named = {f"module.{name}": value for name, value in self.tensors.items()}
        return vmap(one)(named, *args)

    def one(self, *args: Any, method: str | Callable[..., Any] = "forward") -> Any:
        """Result of ``method`` of the one module that all rows are, on arguments of all clients [C, ...]."""
        only = Bound(self._call.module, {name: value[0] for name, value in self.tensors.items()})
        return only(*args, method=method)


def refuse_hidden_randomness(module: nn.Module) -> None:
    """Raise where a module draws randomness of its own, which would depend on chunks and devices."""
    for name, part in module.named_modules():
        if isinstance(part, _FORBIDDEN):
            raise TypeError(
                f"{type(module).__name__}.{name} is {type(part).__name__}: draw its noise through Step.noise instead"
            )


@contextmanager
def seeded(seed: int, key: int) -> Iterator[None]:
    """What torch draws inside depends on (seed, key) alone; its global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(initial_seed(seed, key))
        yield


def build(make: Callable[[], nn.Module], seed: int, key: int, dtype: torch.dtype) -> nn.Module:
    """One module whose initial weights depend on (seed, key) alone."""
    with seeded(seed, key):
        return make().to(dtype)


def tensors_of(module: nn.Module) -> tuple[Tensors, Tensors]:
    """Copies of a module's (parameters, buffers) by name.

    Buffers registered as not persistent are constants of the task: they stay in the skeleton, one for all clients.
    """
    kept = module.state_dict().keys()
    params = {name: p.detach().clone() for name, p in module.named_parameters()}
    return params, {name: b.detach().clone() for name, b in module.named_buffers() if name in kept}


def stack_clients(
    make: Callable[[], nn.Module], seed: int, keys: Tensor, dtype: torch.dtype, device: torch.device
) -> tuple[nn.Module, Tensors, Tensors]:
    """A skeleton module and every client's own initial (parameters, buffers), each [C, ...]."""
    skeleton = build(make, seed, int(keys[0]), dtype)
    refuse_hidden_randomness(skeleton)
    first_params, first_buffers = tensors_of(skeleton)
    params = {n: p.new_empty((len(keys), *p.shape)) for n, p in first_params.items()}
    buffers = {n: b.new_empty((len(keys), *b.shape)) for n, b in first_buffers.items()}
    for row, key in enumerate(keys.tolist()):
        own_params, own_buffers = tensors_of(build(make, seed, key, dtype))
        for name, p in own_params.items():
            params[name][row] = p
        for name, b in own_buffers.items():
            buffers[name][row] = b
    return (
        skeleton.to(device),
        {n: p.to(device) for n, p in params.items()},
        {n: b.to(device) for n, b in buffers.items()},
    )


def matching(names: list[str] | Tensors, prefixes: tuple[str, ...]) -> list[str]:
    """Parameter names that equal a prefix or lie below it (``encoder`` matches ``encoder.hour.weight``, "" all)."""
    return [n for n in names if any(not p or n == p or n.startswith(p + ".") for p in prefixes)]


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors whose names start with ``prefix``, by the rest of their names (``encoder.`` or ``selected/``)."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def along(values_C: Tensor, tensor: Tensor) -> Tensor:
    """``values_C``, one a client, in the shape in which they meet the rows of ``tensor`` [C, ...]."""
    return values_C.view(-1, *[1] * (tensor.dim() - 1))


def lengths(tensors: Tensors) -> Tensor:
    """L2 norm [C] of each client's numbers, over all tensors [C, ...] together.

    In float64: the square of what a broken client sends may be too large for the type it came in.
    """
    squares = [value.double().reshape(len(value), -1).square().sum(1) for value in tensors.values()]
    return torch.stack(squares).sum(0).sqrt()


def compact(weights: Tensors, prefix: str) -> Tensors:
    """Tensors [C, ...] ready to be written: prefixed, contiguous, one row where all clients share the tensor."""
    rows = {n: w[:1] if w.shape[0] > 1 and w.stride(0) == 0 else w for n, w in weights.items()}
    return {f"{prefix}/{n}": w.detach().cpu().contiguous().clone() for n, w in rows.items()}
