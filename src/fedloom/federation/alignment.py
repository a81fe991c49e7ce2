"""Matching the rows of many codebooks to those of one anchor."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import normalize


def cosine_cost(rows_CID: Tensor, anchor_ID: Tensor) -> Tensor:
    """Cost [C, I, I] of matching anchor row i (second axis) with a client's row j: 1 - cos (Atlas, Eq. 6)."""
    return 1 - normalize(anchor_ID, dim=-1) @ normalize(rows_CID, dim=-1).transpose(-1, -2)


def align_rows(rows_CID: Tensor, anchor_ID: Tensor) -> Tensor:
    """For each client the order [C, I] of its rows with the least total cosine cost: row ``order[i]`` matches anchor i.

    Exact (Atlas, Eq. 7). Where every anchor row already has a nearest row of its own, that matching reaches the lower
    bound of the cost and is optimal; only the other clients go to the assignment solver.
    """
    cost = cosine_cost(rows_CID, anchor_ID)
    order = cost.argmin(-1)
    prototypes = anchor_ID.shape[0]
    distinct = (order.sort(-1).values == torch.arange(prototypes, device=order.device)).all(-1)
    for client in (~distinct).nonzero()[:, 0].tolist():
        _, columns = linear_sum_assignment(cost[client].double().cpu().numpy())
        order[client] = torch.from_numpy(columns).to(order.device)
    return order


def placed_rows(rows_CD: Tensor, weights_C: Tensor, anchor_ID: Tensor) -> tuple[Tensor, Tensor]:
    """The codebook [I, D] after each client's one row went to the anchor row nearest by cosine, and where it went [C].

    Anchor rows become weighted means of what reached them; the others stay (Atlas, Sec. 5.3: A.6).
    """
    slot_C = cosine_cost(rows_CD[:, None], anchor_ID)[:, :, 0].argmin(-1)
    share = weights_C.to(anchor_ID.dtype)
    total = torch.zeros_like(anchor_ID).index_add(0, slot_C, rows_CD * share[:, None])
    weight = torch.zeros_like(anchor_ID[:, 0]).index_add(0, slot_C, share)[:, None]
    return torch.where(weight > 0, total / weight.clamp(min=1), anchor_ID), slot_C
