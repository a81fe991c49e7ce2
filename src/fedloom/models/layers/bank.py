"""FedDis' bank: rows that a client's codes keep overwriting, and that each code reads by attention.

Sample after sample the bank becomes B <- keep B + (1 - keep) B~, with row k of a sample's B~ equal to w_k z + b_k (the
client is one sensor, so its map over sensors is one number a row). A sample reads the bank just after it was written;
no gradient flows into what earlier samples wrote. As B~ has rank one, all banks of a minibatch follow from weighted
sums of its codes, without a loop.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

SHARPNESS = 4.0  # scores are divided by it, published code


def whitened(rows_KD: Tensor) -> Tensor:
    """Rows turned so that their principal components have unit variance."""
    centred = rows_KD - rows_KD.mean(0)
    variance, axes = torch.linalg.eigh(centred.T @ centred / len(rows_KD))
    return centred @ axes / (variance.clamp(min=0) + 1e-5).sqrt()


class Past(NamedTuple):
    """The bank before each sample, ``share`` [B] of the kept rows + w ``codes`` [B, D] + b ``weight`` [B]."""

    share: Tensor
    codes: Tensor
    weight: Tensor


class Bank(nn.Module):
    """K rows of D numbers (a buffer), how codes are written to them and how they are read."""

    rows: Tensor

    def __init__(self, rows: int, width: int, keep: float) -> None:
        super().__init__()
        self.keep = keep
        self.register_buffer("rows", whitened(torch.randn(rows, width)))
        self.write = nn.Linear(1, rows)
        self.of_code, self.of_row = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1)

    def frozen(self, z_BD: Tensor) -> Past:
        """The bank as it stands, the same before every sample."""
        return Past(torch.ones_like(z_BD[:, 0]), torch.zeros_like(z_BD), torch.zeros_like(z_BD[:, 0]))

    def written(self, z_BD: Tensor) -> Past:
        """The bank before each sample where samples write in order."""
        order = torch.arange(len(z_BD), dtype=z_BD.dtype, device=z_BD.device)
        share_B = self.keep**order
        age_BB = order[:, None] - 1 - order
        weight_BB = torch.where(age_BB >= 0, (1 - self.keep) * self.keep ** age_BB.clamp(min=0), 0)
        return Past(share_B, weight_BB @ z_BD.detach(), 1 - share_B)

    def after(self, z_BD: Tensor, valid_B: Tensor) -> Tensor:
        """The rows [K, D] after all samples with ``valid_B`` 1, which come first."""
        count = valid_B.sum()
        age_B = count - 1 - torch.arange(len(z_BD), dtype=z_BD.dtype, device=z_BD.device)
        weight_B = valid_B * (1 - self.keep) * self.keep ** age_B.clamp(min=0)
        share = self.keep**count
        return share * self.rows + self.write.weight * (weight_B @ z_BD) + self.write.bias[:, None] * (1 - share)

    def read(self, z_BD: Tensor, past: Past) -> Tensor:
        """What each code reads, [B, D]: the bank's rows after it was written, by additive attention."""
        w_K, b_K, old, new = self.write.weight[:, 0], self.write.bias, self.keep, 1 - self.keep
        # Row k of the bank of sample i is share_i rows_k + sum over r of weight_Kr factor_rD.
        weight_KR = torch.stack([old * w_K.detach(), old * b_K.detach(), new * w_K, new * b_K], -1)
        one_BD = torch.ones_like(z_BD)
        factor_BRD = torch.stack([past.codes, past.weight[:, None] * one_BD, z_BD, one_BD], 1)
        share_B11 = (self.keep * past.share)[:, None, None]
        seen_BRD = self.of_row(factor_BRD)
        # The code's own part is one more factor, of weight one: a single product gives all hidden units.
        joined_KR = torch.cat([weight_KR, torch.ones_like(weight_KR[:, :1])], -1)
        hidden_BKD = joined_KR @ torch.cat([seen_BRD, self.of_code(z_BD)[:, None]], 1)
        hidden_BKD = (hidden_BKD + share_B11 * self.of_row(self.rows)).relu()
        attention_BK = (self.score(hidden_BKD)[..., 0] / SHARPNESS).softmax(-1)
        read_B1D = (attention_BK @ weight_KR)[:, None] @ factor_BRD
        return share_B11[:, 0] * (attention_BK @ self.rows) + read_B1D[:, 0]
