"""Held-out sets: series that no model was trained on, and the windows that are cut from them."""

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
from fedloom.federation.randomness import derive, name_key

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


def spread(first: int, behind: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` places from ``first`` to ``behind`` - 1, evenly apart, both ends among them."""
    if behind <= first:
        return np.zeros(0, dtype=np.int64)
    found: Floats = np.linspace(first, behind - 1, max(1, min(most, behind - first))).round()
    return np.unique(found.astype(np.int64))


def origins(channel: Channel, part: Part, horizon: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` origins whose whole horizon lies in a part, the first and the last possible among them.

    The past of an origin may lie in the part before.
    """
    first, behind = channel.bounds(part)
    # The first point of all has no past to foretell it from.
    return spread(max(first, 1), behind - horizon + 1, most)


@dataclass(frozen=True)
class Cut:
    """Windows: what was before each origin [B, back] and what follows [B, ahead], NaN where unknown.

    ``keys`` [B] belong to channel and origin.
    """

    past: Tensor
    future: Tensor
    keys: Tensor

    @property
    def x(self) -> Tensor:
        """The past with 0 where it is unknown."""
        return self.past.nan_to_num(0.0)

    @property
    def seen(self) -> Tensor:
        """1 where the past is known."""
        return (~self.past.isnan()).to(self.past.dtype)

    def of(self, some: Tensor) -> Cut:
        """Return some of the windows."""
        chosen = some.to(self.past.device)
        return Cut(self.past[chosen], self.future[chosen], self.keys[chosen])


def cut(channel: Channel, at_B: NDArray[np.int64], back: int, ahead: int) -> Cut:
    """Cut windows at the places ``at_B`` of first future points; before a series' first point nothing is known."""
    device = channel.values.device
    padded = torch.nn.functional.pad(channel.values, (back, ahead), value=torch.nan)
    places = torch.from_numpy(at_B).to(device)
    windows = padded[places[:, None] + torch.arange(back + ahead, device=device)]
    keys = derive(places, channel.key, "origin")
    return Cut(windows[:, :back], windows[:, back:], keys)


def joined(cuts: Sequence[Cut]) -> Cut:
    """Return the windows of several channels, one below the other."""
    return Cut(*(torch.cat([getattr(c, name) for c in cuts]) for name in ("past", "future", "keys")))


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
