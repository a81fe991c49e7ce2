"""Has a generator collapsed? Sequences that differ less than a tenth as much as real ones are no substitute for them.

A generator that lost the contest draws nearly the same whatever its noise. What is compared is the standard deviation
between sequences at the same step (variances are means over steps by how many sequences have them): that of the
outcome, and that of the contexts, a mean over the columns that vary in the real sequences, none counted as more than
the real one's. A model that decodes the mean of a context, as it may, keeps more than a tenth of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.evaluation.causal.utility import Sequences
from fedloom.evaluation.rows import Row, condition, row

LEAST = 0.1
"""Share of the real standard deviation below which a generator counts as collapsed, in outcome or contexts."""


def collapse_rows(made: Sequences, real: Sequences) -> list[Row]:
    """Return rows ``spread`` of outcome and contexts, drawn against real, and ``collapsed``: 1 where one is too small.

    Both sets have the same sequences' lengths. A spread is null where the real ones do not vary at all.
    """
    steps = int(real.valid_NL.sum())
    shares = {
        "outcome": _share(made.y_NL[..., None], real.y_NL[..., None], real.valid_NL),
        "context": _share(made.a_NLA, real.a_NLA, real.valid_NL),
    }
    rows = [
        row("spread", share, steps, condition(of=name), reason="no variance" if share != share else None)
        for name, share in shares.items()
    ]
    return [*rows, row("collapsed", float(any(share < LEAST for share in shares.values())), steps)]


def _share(made_NLF: Tensor, real_NLF: Tensor, valid_NL: Tensor) -> float:
    """Mean over the columns that vary of drawn over real deviation, none above 1; NaN without such a column."""
    made_F, real_F = _deviation(made_NLF, valid_NL), _deviation(real_NLF, valid_NL)
    varies = real_F > 1e-4
    return float((made_F[varies] / real_F[varies]).clamp(max=1).mean()) if bool(varies.any()) else float("nan")


def _deviation(values_NLF: Tensor, valid_NL: Tensor) -> Tensor:
    """Standard deviation between sequences at the same step, [F], over all valid steps."""
    weight, values = valid_NL[..., None].double(), values_NLF.double()
    mean_LF = (values * weight).sum(0) / weight.sum(0).clamp(min=1)
    found: Tensor = ((values - mean_LF).square() * weight).sum((0, 1)) / weight.sum((0, 1))
    return torch.nan_to_num(found).sqrt()
