"""Streaming sums of forecast errors, from which every forecasting metric follows."""

from __future__ import annotations

import torch
from torch import Tensor


class ErrorSums:
    """Masked error sums per client and horizon step, accumulated in float64.

    Fields are [C, H]: ``n`` scored readings, ``abs`` sum of absolute errors, ``sq`` of squared errors, ``ape`` of
    absolute errors relative to the truth over ``n_ape`` readings whose truth is not 0.
    """

    def __init__(self, clients: int, horizon: int, device: torch.device | str = "cpu") -> None:
        shape = (clients, horizon)
        self.n, self.abs, self.sq, self.ape, self.n_ape = (
            torch.zeros(shape, dtype=torch.float64, device=device) for _ in range(5)
        )

    def add(self, forecast_CBH: Tensor, truth_CBH: Tensor, mask_CBH: Tensor, rows: slice = slice(None)) -> None:
        """Add a batch. Truth may be NaN where ``mask_CBH`` is False; ``rows`` says which clients the batch holds."""
        mask = mask_CBH.to(torch.float64)
        truth = torch.where(mask_CBH, truth_CBH, 0).to(torch.float64)
        error = (forecast_CBH.to(torch.float64) - truth).abs() * mask
        self.n[rows] += mask.sum(1)
        self.abs[rows] += error.sum(1)
        self.sq[rows] += error.square().sum(1)
        relative = mask_CBH & (truth != 0)
        self.n_ape[rows] += relative.sum(1)
        self.ape[rows] += (error / torch.where(relative, truth.abs(), 1) * relative).sum(1)

    def mae(self) -> float:
        """Mean absolute error pooled over clients and the whole horizon; NaN where nothing was scored."""
        return float(self.abs.sum() / self.n.sum())

    def client_mae(self) -> Tensor:
        """Mean absolute error of each client [C]; NaN for a client without a scored reading."""
        return self.abs.sum(1) / self.n.sum(1)
