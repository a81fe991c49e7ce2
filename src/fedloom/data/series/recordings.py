"""What a reader makes of one raw file of series, not yet cleaned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recording:
    """Channels of one length, with stamps where the file has them, else with the first stamp or none.

    channels: name -> values [T] (float64, NaN where missing).
    stamps: naive local time of each point, in the file's order; None where points follow each other evenly.
    start: stamp of the first point where ``stamps`` is None (NaT where unknown).
    label: 0 or 1 a point [T], or the one class of a case [1]; None without.
    """

    id: str
    channels: dict[str, NDArray[np.float64]]
    stamps: pd.DatetimeIndex | None = None
    start: pd.Timestamp = pd.NaT
    label: NDArray[np.int8] | None = None

    @property
    def length(self) -> int:
        """Points of each channel."""
        return len(next(iter(self.channels.values())))
