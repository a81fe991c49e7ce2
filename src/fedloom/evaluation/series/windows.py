"""Windows that are cut from held-out series: where, and how a model takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.evaluation.series.targets import Channel, Part
from fedloom.federation.randomness import derive
from fedloom.federation.tasks.series import SeriesWindows

Floats = NDArray[np.float64]

IMPUTED = 96
"""Length of the windows of the imputation protocol."""


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


def batches(cut_: Cut, size: int) -> list[Cut]:
    """Return the windows in batches of at most ``size``."""
    parts = zip(cut_.past.split(size), cut_.future.split(size), cut_.keys.split(size), strict=True)
    return [Cut(*part) for part in parts]


def forecast_windows(
    channels: Sequence[Channel], part: Part, back: int, horizon: int, most: int
) -> list[tuple[Channel, Cut]]:
    """Return at most ``most`` windows of a set in all, channel by channel, at least one of each that has any."""
    each = max(1, most // len(channels))
    found = [(channel, origins(channel, part, horizon, each)) for channel in channels]
    return [(channel, cut(channel, at, back, horizon)) for channel, at in found if len(at)]


def windows_of(
    channels: Sequence[Channel], part: Part, width: int, length: int, most: int, apart: bool = True
) -> Cut | None:
    """Return windows of ``width`` points inside a part, padded to ``length``; None where the part has none.

    ``apart`` ones do not overlap, however few that leaves. The past holds the points, the future is empty.
    """
    each, found = max(1, most // len(channels)), []
    for channel in channels:
        first, behind = channel.bounds(part)
        room = max(1, (behind - first) // width)
        at = spread(first + width, behind + 1, min(each, room) if apart else each)
        if len(at):
            found.append(cut(channel, at, width, 0))
    if not found:
        return None
    every = joined(found)
    return Cut(torch.nn.functional.pad(every.past, (length - width, 0), value=torch.nan), every.future, every.keys)


def as_windows(some: Cut, patch: int) -> SeriesWindows:
    """Return windows as a model takes them, with nothing hidden."""
    hidden = torch.zeros(len(some.past), some.past.shape[1] // patch, dtype=torch.bool, device=some.past.device)
    return SeriesWindows(some.x, some.seen, hidden, some.seen.new_ones(len(some.past)))
