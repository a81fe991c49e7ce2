"""What a server does with uploads in place of their plain mean, so that a few bad ones cannot carry it away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedloom.federation.stack import Tensors, along, lengths

Kind = Literal["mean", "median", "trimmed", "clip"]


@dataclass(frozen=True)
class ServerRule:
    """How a server that averages makes one tensor of many.

    ``mean``: weighted by sample counts; an upload that is not finite ends the run as diverged. The others first put
    aside every upload that holds a number that is not finite, whole, as if it had not come. ``median``: of each
    coordinate, every client counting once; ``trimmed``: its mean without a share ``trim`` of the clients at either end
    (both Yin et al. 2018, Byzantine-Robust Distributed Learning, Def. 1-2). ``clip``: the weighted mean after each
    upload was drawn towards what the server holds, until the two are at most ``clip`` times as far apart (L2, over all
    numbers of an upload together) as the median upload of that round (Sun et al. 2019, Can You Really Backdoor
    Federated Learning?, with the bound of Andrew et al. 2021).
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}  # config files: a misspelt key is an error

    kind: Kind = "mean"
    trim: float = 0.2
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.trim < 0.5:
            raise ValueError(f"server_rule.trim: expected a share in [0, 0.5), found {self.trim}")
        if self.clip <= 0:
            raise ValueError(f"server_rule.clip: expected more than 0, found {self.clip}")

    def combined(self, values: Tensors, weights_c: Tensor, around: Mapping[str, Tensor]) -> Tensors:
        """One tensor [...] for each of ``values`` [c, ...], of clients with sample counts ``weights_c``.

        ``around`` is what the server holds by the same names; what it does not hold counts as zero.
        """
        clients = len(weights_c)
        if self.kind == "median":
            return {name: trimmed_mean(value, (clients - 1) // 2) for name, value in values.items()}
        if self.kind == "trimmed":
            return {name: trimmed_mean(value, int(self.trim * clients)) for name, value in values.items()}
        if self.kind == "clip":
            values = clipped(values, around, self.clip)
        return {name: weighted_mean(value, weights_c) for name, value in values.items()}


def weighted_mean(values: Tensor, weights_c: Tensor) -> Tensor:
    """Mean over clients of ``values`` [c, ...], weighted by sample counts (FedAvg's w_k).

    Summed in float64: clients that stay close to each other round the same way, and a thousand roundings add up.
    """
    share_c = weights_c.double() / weights_c.sum()
    return torch.tensordot(share_c, values.double(), dims=1).to(values.dtype)


def trimmed_mean(values: Tensor, cut: int) -> Tensor:
    """Mean over clients of ``values`` [c, ...] without the ``cut`` least and the ``cut`` largest of each coordinate."""
    return values.sort(dim=0).values[cut : len(values) - cut].mean(0)


def clipped(values: Tensors, around: Mapping[str, Tensor], times: float) -> Tensors:
    """``values`` [c, ...], none farther from ``around`` than ``times`` the median distance, over all names together."""
    changes = {n: value - around[n] if n in around else value for n, value in values.items()}
    length_c = lengths(changes)
    bound = times * length_c.quantile(0.5)
    factor_c = (bound / length_c.clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1)
    held = {n: along(factor_c.to(change.dtype), change) * change for n, change in changes.items()}
    return {n: around[n] + change if n in around else change for n, change in held.items()}


def finite_uploads(received: Tensors) -> Tensor:
    """Which clients' messages [c, ...] hold only finite numbers: bool [c]."""
    sound = [torch.isfinite(value).reshape(len(value), -1).all(1) for value in received.values()]
    return torch.stack(sound).all(0)
