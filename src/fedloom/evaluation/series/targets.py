"""Held-out sets: series that no model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.data.series.table import read_series
from fedloom.federation.randomness import name_key

Part = Literal["train", "validation", "test"]
Floats = NDArray[np.float64]

TARGETS = "targets"
"""Role of the held-out sets among the datasets that stand beside a federation."""

WEEK = 7 * 24 * 3600
LONG, WEEKLY = (96, 192, 336, 720), (24, 36, 48, 60)
SHARES = (0.7, 0.8)
"""Ends of the training and the validation part of a series that does not say where its parts begin."""


@dataclass(frozen=True)
class Channel:
    """One series of a held-out set, scaled by the mean and deviation of its training part; NaN where missing.

    ``case`` is the recording that it is a channel of. ``validation`` and ``test`` are the first points of these parts,
    ``season`` is 0 where there is none, ``label`` (None where unknown) holds one number a point or one for the case.
    ``shift`` and ``scale`` lead back: raw = values * scale + shift.
    """

    case: str
    name: str
    values: Tensor
    validation: int
    test: int
    season: int
    seconds: float
    shift: float
    scale: float
    label: NDArray[np.int64] | None

    @property
    def key(self) -> int:
        """What keys its masks."""
        return name_key(f"{self.case}/{self.name}")

    def bounds(self, part: Part) -> tuple[int, int]:
        """First point of a part and the one behind its last."""
        ends = {"train": (0, self.validation), "validation": (self.validation, self.test)}
        return ends[part] if part != "test" else (self.test, len(self.values))


@dataclass(frozen=True)
class Targets:
    """Held-out sets by what they are for: task -> name of the set -> its channels."""

    by_task: dict[str, dict[str, list[Channel]]]

    def of(self, task: str) -> dict[str, list[Channel]]:
        """The sets that ``task`` is judged on."""
        return self.by_task.get(task, {})


def read_targets(folder: Path, device: torch.device, dtype: torch.dtype) -> Targets:
    """Read the held-out sets in ``folder``. Raises InputError where there are none or they break the schema."""
    by_task: dict[str, dict[str, list[Channel]]] = {}
    for row in read_series(folder).table.itertuples(index=False):
        channel = _channel(row._asdict(), device, dtype)
        for task in row.tasks:
            by_task.setdefault(task, {}).setdefault(row.client, []).append(channel)
    return Targets(by_task)


def horizons(channels: Sequence[Channel]) -> tuple[int, ...]:
    """Return the customary horizons: 24 to 60 steps of weekly series, 96 to 720 of all others."""
    return WEEKLY if any(channel.seconds >= WEEK for channel in channels) else LONG


def _channel(row: dict[str, object], device: torch.device, dtype: torch.dtype) -> Channel:
    values = np.asarray(row["values"], dtype=np.float64)
    validation, test = int(str(row["validation"])), int(str(row["test"]))
    if validation < 0:
        validation, test = (int(share * len(values)) for share in SHARES)
    # A series that lies in the test part as a whole is scaled by itself: nothing else is known of its unit.
    known = values[:validation] if validation else values
    known = known[~np.isnan(known)]
    shift = float(known.mean()) if len(known) else 0.0
    deviation = float(known.std()) if len(known) else 0.0
    scale = deviation if deviation > 0 else 1.0
    label = row["label"]
    return Channel(
        case=f"{row['client']}/{row['id']}",
        name=str(row["channel"]),
        values=torch.from_numpy((values - shift) / scale).to(device=device, dtype=dtype),
        validation=validation,
        test=test,
        season=int(str(row["season"])),
        seconds=float(str(row["seconds"])),
        shift=shift,
        scale=scale,
        label=None if label is None or not isinstance(label, np.ndarray) else label.astype(np.int64),
    )
