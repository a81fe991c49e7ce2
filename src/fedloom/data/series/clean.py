"""What is done to recordings before they are series: every rule that changes or leaves out anything counts it.

Cleaned, in this order: values that stand for "missing", infinite ones and ones beyond float32 become missing;
unsorted stamps are sorted; of points with one stamp the first is kept; of points within one sampling interval the
first; steps that the stamps skip become missing points; missing points before the first and after the last value are
cut off. Left out: a channel without any value, with one value, with the same value throughout.
Targets keep their ends and all their channels: a benchmark says which points are scored.
Gaps are filled later (``fedloom.data.series.gaps``), inside the parts of a split, so that no part looks into the next.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from fedloom.data.series.recordings import Recording
from fedloom.errors import InputError

Array = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
MOST_SKIPPED = 20  # an axis with more steps than this for each point has another sampling interval than stated


def null(recording: Recording, sentinels: tuple[float, ...], counts: Counter[str]) -> Recording:
    """``recording`` with sentinels, infinite values and those beyond float32 missing."""
    channels = {}
    for name, values in recording.channels.items():
        standing, beyond = np.isin(values, sentinels), np.abs(values) > LARGEST
        counts["sentinel_points_to_missing"] += int(standing.sum())
        counts["infinite_points_to_missing"] += int(beyond.sum())
        channels[name] = np.where(standing | beyond, np.nan, values)
    return dataclasses.replace(recording, channels=channels)


def regular(recording: Recording, seconds: float | None, where: str, counts: Counter[str]) -> Recording:
    """``recording`` on an even axis of ``seconds`` between points; only in order where None, as it is without stamps.

    A label of a step that the stamps skip is 0. Raises InputError where the stamps do not fit the interval at all.
    """
    if recording.stamps is None:
        return recording
    stamps = recording.stamps.to_numpy("datetime64[ns]").astype(np.int64)
    order = np.argsort(stamps, kind="stable")
    counts["unsorted_stamps"] += int((np.diff(stamps) < 0).sum())
    first = np.r_[True, np.diff(stamps[order]) > 0]
    counts["duplicate_stamps_left_out"] += int((~first).sum())
    kept = order[first]
    start = recording.stamps[kept[0]]
    steps = np.arange(len(kept))
    if seconds is not None:
        steps = np.rint((stamps[kept] - stamps[kept[0]]) / (seconds * 1e9)).astype(np.int64)
    alone = np.r_[True, np.diff(steps) > 0]
    counts["points_within_an_interval_left_out"] += int((~alone).sum())
    kept, steps = kept[alone], steps[alone]
    total = int(steps[-1]) + 1
    if total > MOST_SKIPPED * len(steps):
        expected = f"stamps about {seconds:g} s apart"
        raise InputError(f"{where}: seconds: expected {expected}, found {len(steps)} in {total} steps")
    counts["skipped_steps_as_missing"] += total - len(steps)
    channels = {name: np.full(total, np.nan) for name in recording.channels}
    for name, values in recording.channels.items():
        channels[name][steps] = values[kept]
    label = None
    if recording.label is not None:
        label = np.zeros(total, np.int8)
        label[steps] = recording.label[kept]
    return Recording(recording.id, channels, start=start, label=label)


def unusable(values: Array) -> str | None:
    """Why a channel is left out, or None."""
    there = values[~np.isnan(values)]
    if len(there) < 2:
        return "only_one_value" if len(there) else "all_missing"
    return "constant" if there.min() == there.max() else None


def trimmed(values: Array, counts: Counter[str]) -> tuple[Array, int]:
    """``values`` from the first to the last that is there, and how many were cut off before them."""
    there = np.flatnonzero(~np.isnan(values))
    counts["missing_ends_cut_off"] += len(values) - (int(there[-1]) + 1 - int(there[0]))
    return values[there[0] : there[-1] + 1], int(there[0])
