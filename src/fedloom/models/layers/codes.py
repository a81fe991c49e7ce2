"""Categories as 0/1 columns, in a form that vmap takes."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.federation.tasks.trajectory import Trajectories


def indicators(codes: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """One column [..., count] for each category from 0 on; zeros for a code beyond them, such as padding."""
    return (codes[..., None] == torch.arange(count, device=codes.device)).to(dtype)


def static_features(batch: Trajectories, categories: tuple[int, ...]) -> Tensor:
    """Scaled static features and, as 0/1 columns, static categories of which there are so many: [B, F]."""
    columns = [indicators(batch.x_code[..., i], n, batch.x.dtype) for i, n in enumerate(categories)]
    return torch.cat([batch.x, *columns], -1)
