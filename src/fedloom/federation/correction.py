"""What a server adds to the mean of its clients' weights: FeDaL's gradient-level correction and its relatives.

FeDaL, Sec. on GBE, prints s <- s - beta sum_i (theta_i - theta), theta' = mean - s / beta (``literal``). In it beta
cancels: with s = 0 at the start, -s / beta is the sum of all changes so far. Where local training takes a share k of
the error away, error and s follow a linear map that is stable only for k < 4 / (N + 2) clients. ``mean`` divides the
sum by N; it then is a momentum without friction, whose fixed point is FedAvg's, and beta still cancels. ``damped``
forgets a tenth of s a round and adds it undivided, so that beta is its strength. Only with FedDyn's terms in the
clients' losses (``feddyn``, Acar et al. 2021) does the fixed point move to the optimum of the sum.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fedloom.federation.method import Uploads

Correction = Literal["none", "mean", "damped", "feddyn", "literal"]
Tensors = dict[str, Tensor]

KEPT = 0.9  # of s a round, where it is damped


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
        kept, unit = (KEPT, 1.0) if kind == "damped" else (1.0, beta)
        sums[name] = kept * drift[name] - beta * change
        weights[name] = mean - sums[name] / unit
    return weights, sums


def held(flat: Tensor, received: Tensor, drift: Tensor, beta: float) -> Tensor:
    """FedDyn's terms of a client's loss: beta / 2 |theta - theta_r|^2 - <g, theta>, all as vectors (Eq. 1)."""
    return beta / 2 * (flat - received).square().sum() - (drift * flat).sum()


def drifted(flat: Tensor, received: Tensor, drift: Tensor, beta: float) -> Tensor:
    """FedDyn's g of a client after its local training: g - beta (theta - theta_r)."""
    return drift - beta * (flat - received)
