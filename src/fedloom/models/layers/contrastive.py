"""Contrastive losses of one client's codes: near what a code should resemble, far from what it should not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, logsigmoid, normalize, softplus


def gated_info_nce(
    r_BD: Tensor, other_BD: Tensor, temperature: float, gate_BB: Tensor | None, valid_B: Tensor
) -> Tensor:
    """-log of e(i,i) / (e(i,i) + sum over j != i of sigmoid(gate_ij) e(i,j)), e = exp(cosine / temperature).

    Row i of ``other_BD`` is another view of sample i, all other rows are its negatives; without ``gate_BB`` each counts
    in full. Mean over the samples with ``valid_B`` 1; the others are nobody's negatives.
    """
    similar_BB = normalize(r_BD, dim=-1) @ normalize(other_BD, dim=-1).T / temperature
    own = torch.eye(len(valid_B), dtype=torch.bool, device=valid_B.device)
    terms_BB = similar_BB if gate_BB is None else torch.where(own, similar_BB, similar_BB + logsigmoid(gate_BB))
    # exp(cosine / 0.02) reaches e^50: sums of it are taken as logarithms.
    terms_BB = terms_BB.masked_fill(~own & (valid_B == 0)[None, :], -torch.inf)
    loss_B = terms_BB.logsumexp(-1) - similar_BB.diagonal(dim1=-2, dim2=-1)
    return (loss_B * valid_B).sum() / valid_B.sum().clamp(min=1)


def nearer_than(r_BD: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """-log of e(r, p) / (e(r, p) + e(r, n)) a sample, [B], e = exp(cosine / temperature).

    ``positive`` and ``negative`` are [D], the same for all, or [B, D]. A zero vector has cosine 0 with everything.
    """
    return softplus((cosine_similarity(r_BD, negative, -1) - cosine_similarity(r_BD, positive, -1)) / temperature)
