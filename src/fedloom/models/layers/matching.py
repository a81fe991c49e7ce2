"""Losses that compare distributions or hide a label: kernel discrepancy, gradient reversal, grouped cross-entropy."""

from __future__ import annotations

import math
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from fedloom.models.layers.steps import masked_mean

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


def reversed_gradient(x: Tensor, strength: float) -> Tensor:
    """``x`` itself, whose gradient arrives multiplied by -strength (Ganin et al. 2016), in a form that vmap takes."""
    return ((1 + strength) * x).detach() - strength * x


def reversal(progress: float) -> float:
    """Strength of the reversed gradient once ``progress`` (0 to 1) of the training is over (Ganin et al. 2016)."""
    return 2 / (1 + math.exp(-10 * progress)) - 1


def _masked_median(values: Tensor, mask: Tensor) -> Tensor:
    """Lower median of the entries [n] where ``mask`` is true; a value of the rest where none is."""
    ranked = torch.where(mask, values, torch.inf).sort().values
    middle = ((mask.sum() - 1).clamp(min=0) // 2)[None]
    return ranked.gather(0, middle)[0]


def grouped_mmd(x_ND: Tensor, groups_GN: Tensor, all_N: Tensor) -> Tensor:
    """Unbiased squared maximum mean discrepancy between each group of rows and all rows, [G].

    ``groups_GN`` and ``all_N`` are 0/1 membership of the rows ``x_ND``; a row's pair with itself never counts. The
    kernel is the mean of five Gaussians at multiples of the median squared distance of all rows (Gretton et al. 2012,
    Lemma 6). A group of fewer than two rows gives a meaningless value: weigh it by 0.
    """
    square_NN = (x_ND[:, None] - x_ND[None]).square().sum(-1)
    off_diagonal = 1 - torch.eye(len(x_ND), dtype=x_ND.dtype, device=x_ND.device)
    pairs = (all_N[:, None] * all_N[None] * off_diagonal).flatten() > 0
    kernel_NN = _kernel(square_NN, _masked_median(square_NN.detach().flatten(), pairs)) * off_diagonal

    def mean(a_GN: Tensor, b_GN: Tensor) -> Tensor:
        pairs_G = ((a_GN @ off_diagonal) * b_GN).sum(-1)
        return ((a_GN @ kernel_NN) * b_GN).sum(-1) / pairs_G.clamp(min=1)

    everyone_GN = all_N.expand_as(groups_GN)
    return mean(groups_GN, groups_GN) + mean(everyone_GN, everyone_GN) - 2 * mean(groups_GN, everyone_GN)


def sample_mmd(real_ND: Tensor, drawn_ND: Tensor) -> Tensor:
    """Unbiased squared maximum mean discrepancy of drawn rows, each in place of a real one; two at least.

    A pair of a row and its own stand-in never counts (Gretton et al. 2012, Eq. 4). The kernel is ``grouped_mmd``'s, at
    multiples of the median squared distance of real rows, so that all that is drawn is measured alike.
    """
    n, rows = len(real_ND), torch.cat([real_ND, drawn_ND])
    # No products: of close rows they would leave rounding alone.
    square = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist").square()
    off_diagonal = 1 - torch.eye(n, dtype=rows.dtype, device=rows.device)
    kernel = _kernel(square, _masked_median(square[:n, :n].flatten(), off_diagonal.flatten() > 0))
    apart = kernel[:n, :n] + kernel[n:, n:] - 2 * kernel[:n, n:]
    return (apart * off_diagonal).sum() / (n * (n - 1))


def _kernel(square: Tensor, median: Tensor) -> Tensor:
    """Mean of Gaussian kernels at multiples of a median squared distance."""
    # Identical rows have median 0; any positive width then gives a valid kernel.
    median = torch.where(torch.isfinite(median) & (median > 0), median, torch.ones_like(median))
    return reduce(torch.add, (torch.exp(-square / (2 * scale * median)) for scale in SCALES)) / len(SCALES)


def group_loss(logits: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """Mean cross-entropy of ``group`` [...] under ``logits`` [..., G] where ``mask`` is 1; 0 where it never is."""
    nats = -log_softmax(logits, -1).gather(-1, group[..., None])[..., 0]
    return masked_mean(nats, mask)
