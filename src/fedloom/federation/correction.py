"""What a server adds to the mean of its clients' weights: FeDaL's gradient-level correction and its relatives.

FeDaL, Sec. on GBE, prints s <- s - beta sum_i (theta_i - theta), theta' = mean - s / beta. In it beta cancels: with
s = 0 at the start, -s / beta is the sum of all changes so far. Where local training contracts an error by a factor k
a round, error and s follow a linear map that is stable only for k < 4 / (N + 2) clients. ``mean`` divides the sum by N;
it then is a momentum without friction, whose fixed point is FedAvg's. Only with FedDyn's terms in the clients' losses
(Acar et al. 2021) does the fixed point move to the optimum of the sum.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fedloom.federation.method import Uploads

Correction = Literal["none", "mean", "damped", "feddyn", "literal"]
Tensors = dict[str, Tensor]

FRICTION = 0.9  # what `damped` keeps of s a round
STRENGTH = 0.1  # with which `damped` applies it


def corrected(
    kind: Correction, beta: float, clients: Tensor, before: Tensors, drift: Tensors, uploads: Uploads
) -> tuple[Tensors, Tensors]:
    """The server's weights after a round, and its new s (``drift``).

    ``before`` are the weights that went down, ``uploads`` those that came back under the same names; ``clients`` [1] is
    how many the federation has, taking part or not.
    """
    weights, sums = {}, {}
    for name, value in before.items():
        mean = uploads.mean(uploads[name])
        if kind == "none":
            weights[name] = mean
            continue
        change = (uploads[name] - value).sum(0)
        if kind != "literal":
            change = change / clients.to(change.dtype)
        kept, strength = (FRICTION, STRENGTH) if kind == "damped" else (1.0, 1.0)
        sums[name] = kept * drift[name] - beta * change
        weights[name] = mean - strength / beta * sums[name]
    return weights, sums


def held(flat: Tensor, received: Tensor, drift: Tensor, beta: float) -> Tensor:
    """FedDyn's terms of a client's loss: beta / 2 |theta - theta_r|^2 - <g, theta>, all as vectors (Eq. 1)."""
    return beta / 2 * (flat - received).square().sum() - (drift * flat).sum()


def drifted(flat: Tensor, received: Tensor, drift: Tensor, beta: float) -> Tensor:
    """FedDyn's g of a client after its local training: g - beta (theta - theta_r)."""
    return drift - beta * (flat - received)
