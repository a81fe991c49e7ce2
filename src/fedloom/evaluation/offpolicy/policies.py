"""The four reference policies: two anchor actions, called off and on, over a window of steps.

Never takes off at every step, Always on; Early-on takes on in the first half of the window and off afterwards,
Late-on the other way round. With a window of one step Early-on is Always and Late-on is Never.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

OFF, ON, OTHER = 0, 1, 2
"""Groups of actions that an evaluation tells apart: the two anchors, and everything else."""

Policy = Literal["never", "always", "early_on", "late_on"]
POLICIES: tuple[Policy, ...] = ("never", "always", "early_on", "late_on")

Ints = NDArray[np.int64]


def plan(policy: Policy, width_N: Ints, longest: int) -> Ints:
    """Return the anchor [N, longest] (0 off, 1 on) that ``policy`` takes at every step of windows ``width_N`` wide.

    The first half of a window of W steps is ceil(W / 2) of them. Steps beyond a window hold the last half's anchor.
    """
    early = np.arange(longest)[None, :] < -(-width_N[:, None] // 2)
    if policy in ("never", "always"):
        return np.full(early.shape, int(policy == "always"), dtype=np.int64)
    return (early == (policy == "early_on")).astype(np.int64)


def groups(t_NL: Ints, off: int, on: int) -> Ints:
    """Return the group of every action id [N, L]; padding is another action, too."""
    return np.where(t_NL == off, OFF, np.where(t_NL == on, ON, OTHER)).astype(np.int64)
