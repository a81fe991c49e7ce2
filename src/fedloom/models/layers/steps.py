"""Steps of padded sequences: means over those that exist, picks among them, and plans beside their draws."""

from __future__ import annotations

from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the steps that exist, those of ``mask`` 1; 0 where there is none. Both [...]."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def picked_steps(mask_BL: Tensor, pick_BP: Tensor) -> Tensor:
    """Step numbers [B, P] of picks in [0, 1), spread over the steps that each sequence has."""
    return (pick_BP * mask_BL.sum(1, keepdim=True)).long().clamp(max=mask_BL.shape[1] - 1)


def drawn_kind(chance: Tensor, luck: Tensor) -> Tensor:
    """One of K kinds [...] of probabilities [..., K], by uniform ``luck`` [...]."""
    return (chance.cumsum(-1) < luck[..., None]).sum(-1).clamp(max=chance.shape[-1] - 1)


def side_by_side(plans_PBW: Tensor, noise: Tensor, luck: Tensor, *known_BF: Tensor) -> tuple[Tensor, ...]:
    """What every plan meets in every draw: each of ``known_BF`` [P, B, M, F], plans [P, B, M, W], noise and luck.

    ``noise`` [B, M, W, D] and ``luck`` [B, M, W] are the same for all plans (common random numbers).
    """
    shape = (len(plans_PBW), *luck.shape[:2])
    known = (value[None, :, None].expand(*shape, -1) for value in known_BF)
    plan = plans_PBW[:, :, None].expand(*shape, -1)
    return *known, plan, noise.expand(len(plan), *noise.shape), luck.expand(len(plan), *luck.shape)
