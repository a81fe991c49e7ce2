"""The log that off-policy estimates are made from, and the window of it that a policy is followed in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Log:
    """N logged sequences of at most L steps; sequence i has the steps 0 to ``length_N[i]`` - 1.

    client_N: which client holds a sequence. owner_N: whose sequence it is (a patient, a student); sequences of one
    owner are not independent of each other. chosen_NL: the action's group (0 off, 1 on, 2 other). outcome_NL: what
    followed. propensity_NL: probability of the chosen group given the history, logged or estimated.
    """

    client_N: Ints
    owner_N: Ints
    length_N: Ints
    chosen_NL: Ints
    outcome_NL: Floats
    propensity_NL: Floats

    def __post_init__(self) -> None:
        n, longest = self.chosen_NL.shape
        for name in ("client_N", "owner_N", "length_N", "outcome_NL", "propensity_NL"):
            shape = (n,) if name.endswith("_N") else (n, longest)
            if getattr(self, name).shape != shape:
                raise InputError(f"log: {name}: expected the shape {shape}, found {getattr(self, name).shape}")
        if n and not (self.length_N.min() >= 1 and self.length_N.max() <= longest):
            found = f"{self.length_N.min()} to {self.length_N.max()}"
            raise InputError(f"log: length_N: expected 1 to {longest} steps, found {found}")


@dataclass(frozen=True)
class Window:
    """The part of a log in which a policy is followed: S sequences, W steps, step 0 being the window's first.

    row_S: where a sequence is in the log. width_S: how many steps of it the window has; ``inside_SW`` tells which.
    """

    row_S: Ints
    width_S: Ints
    client_S: Ints
    owner_S: Ints
    chosen_SW: Ints
    outcome_SW: Floats
    propensity_SW: Floats
    inside_SW: NDArray[np.bool_]

    def cut(self, values_NL: Floats, first: int) -> Floats:
        """Return the part [S, W, ...] of values of the whole log [N, L, ...] that lies in a window from ``first``."""
        return values_NL[self.row_S, first : first + self.inside_SW.shape[1]]


def window(log: Log, first: int = 0, steps: int | None = None) -> Window:
    """Return the window of ``steps`` steps from step ``first`` (from 0); without ``steps``, to each sequence's end.

    Sequences that do not have all those steps (at least one, without ``steps``) are left out.
    """
    left_N = log.length_N - first
    row_S = np.flatnonzero(left_N >= (1 if steps is None else steps))
    width_S = left_N[row_S] if steps is None else np.full(len(row_S), steps, dtype=np.int64)
    widest = int(width_S.max(initial=1))
    part = slice(first, first + widest)
    return Window(
        row_S,
        width_S,
        log.client_N[row_S],
        log.owner_N[row_S],
        log.chosen_NL[row_S, part],
        log.outcome_NL[row_S, part],
        log.propensity_NL[row_S, part],
        np.arange(widest)[None, :] < width_S[:, None],
    )
