"""Which clients are alike: k-means over what they sent, from starts that depend on no order and no chance."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

PASSES = 20


def clustered(points_ND: Tensor, clusters: int, before_N: Tensor) -> Tensor:
    """Return the cluster [N] (int64, from 0) of each client by its point, all dimensions in one unit.

    The search begins once at every client, with those farthest from all begun with (Gonzalez 1985), and the closest
    clusters that it ends with are kept. ``before_N`` are earlier clusters, -1 for a client that had none: numbers are
    dealt so that as many clients as possible keep theirs. With fewer clients than ``clusters`` each is its own.
    """
    wanted = min(clusters, len(points_ND))
    found = [_from(points_ND, first, wanted) for first in range(len(points_ND))]
    nearest_N = min(found, key=lambda each: each[0])[1]
    number_K = torch.arange(clusters, device=points_ND.device)
    stay_KK = (nearest_N == number_K[:, None]).double() @ (before_N == number_K[:, None]).double().T
    renamed_K = linear_sum_assignment(stay_KK.cpu().numpy(), maximize=True)[1]
    return torch.from_numpy(renamed_K).to(nearest_N)[nearest_N]


def _from(points_ND: Tensor, first: int, clusters: int) -> tuple[float, Tensor]:
    """Sum of squared distances to the nearest centre, and which that is [N], of the search that begins at ``first``."""
    chosen = [first]
    while len(chosen) < clusters:
        chosen.append(int(torch.cdist(points_ND, points_ND[chosen]).min(1).values.argmax()))
    centre_KD = points_ND[chosen]
    for _ in range(PASSES):
        nearest_N = torch.cdist(points_ND, centre_KD).argmin(1)
        member_KN = (nearest_N == torch.arange(clusters, device=points_ND.device)[:, None]).to(points_ND.dtype)
        means_KD = (member_KN @ points_ND) / member_KN.sum(1, keepdim=True).clamp(min=1)
        # A cluster that lost its members keeps its centre: it may win some back.
        centre_KD = torch.where(member_KN.any(1, keepdim=True), means_KD, centre_KD)
    distance_N, nearest_N = torch.cdist(points_ND, centre_KD).min(1)
    return float(distance_N.square().sum()), nearest_N
