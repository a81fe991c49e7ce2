"""What a server adds to the mean of its clients' weights: FeDaL's gradient-level correction and its relatives.

FeDaL, Sec. on GBE, prints s <- s - beta sum_i (theta_i - theta), theta' = mean - s / beta (``literal``). In it beta
cancels: with s = 0 at the start, -s / beta is the sum of all changes so far. Where local training takes a share k of
the error away, error and s follow a linear map that is stable only for k < 4 / (N + 2) clients. ``mean`` divides the
sum by N; it then is a momentum without friction, whose fixed point is FedAvg's, and beta still cancels. ``damped``
forgets a tenth of s a round and adds it undivided, so that beta is its strength. Only with FedDyn's terms in the
clients' losses (``feddyn``, Acar et al. 2021) does the fixed point move to the optimum of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fedloom.federation.method import Clients, Phase, Uploads
from fedloom.federation.stack import Bound, Tensors, matching
from fedloom.federation.task import Task

Correction = Literal["none", "mean", "damped", "feddyn", "literal"]

KEPT = 0.9  # of s a round, where it is damped


@dataclass(frozen=True)
class GradientCorrection:
    """The correction of the weights below the prefixes ``over``, with strength ``beta``.

    The server's state holds s as ``drift/{name}`` of every weight and ``clients`` [1], how many the federation has.
    FedDyn keeps two vectors as buffers of every client: ``received``, theta as it came, and ``drift``, its g.
    """

    kind: Correction
    beta: float
    over: tuple[str, ...]

    # -- the server ----------------------------------------------------------------------------------------------

    def start(self, task: Task, weights: Tensors) -> Tensors:
        """The server's state before round 0."""
        clients = (task.sizes("train") > 0).sum()[None].to(task.device)
        names = [] if self.kind == "none" else matching(weights, self.over)
        return {f"drift/{name}": torch.zeros_like(weights[name]) for name in names} | {"clients": clients}

    def corrected(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The weights after a round, and their new s; ``server`` holds those that went down."""
        weights, sums = {}, {}
        for name in matching(server, self.over):
            mean = uploads.mean(uploads[name])
            if self.kind == "none":
                weights[name] = mean
                continue
            change = (uploads[name] - server[name]).sum(0)
            if self.kind != "literal":
                change = change / server["clients"].to(change.dtype)
            kept, unit = (KEPT, 1.0) if self.kind == "damped" else (1.0, self.beta)
            sums[f"drift/{name}"] = kept * server[f"drift/{name}"] - self.beta * change
            weights[name] = mean - sums[f"drift/{name}"] / unit
        return weights | sums

    # -- clients, where they have FedDyn's terms -----------------------------------------------------------------

    def buffers(self, module: nn.Module) -> dict[str, int]:
        """Names and lengths of the vectors that a client keeps."""
        parameters: Tensors = dict(module.named_parameters())
        size = sum(parameters[name].numel() for name in matching(parameters, self.over))
        return {"received": size, "drift": size} if self.kind == "feddyn" else {}

    def phases(self) -> tuple[Phase, ...]:
        """Training, and for FedDyn a look at what came out of it."""
        if self.kind != "feddyn":
            return (Phase(),)
        return Phase(upload=False), Phase("settle", epochs=0, download=False)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """New values of the vectors: theta_r before training, g - beta (theta - theta_r) after it (``settle``)."""
        if self.kind != "feddyn" or phase.name not in ("train", "settle"):
            return {}
        theta, old = self._flat(clients.params, 1), clients.buffers
        if phase.name == "train":
            return {"received": theta}
        return {"drift": old["drift"] - self.beta * (theta - old["received"])}

    def held(self, loss: Tensor, model: Bound) -> Tensor:
        """A loss + beta / 2 |theta - theta_r|^2 - <g, theta>, all as vectors (Acar et al. 2021, Eq. 1)."""
        if self.kind != "feddyn":
            return loss
        theta = self._flat(model.tensors, 0)
        terms = self.beta / 2 * (theta - model["received"]).square().sum() - (model["drift"] * theta).sum()
        return loss + terms

    def _flat(self, tensors: Tensors, lead: int) -> Tensor:
        return torch.cat([tensors[name].flatten(lead) for name in matching(tensors, self.over)], lead)
