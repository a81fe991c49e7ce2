"""The partition of series into clients, parts and windows, with each series' scale. Windows never straddle two parts.

A series is split in time; where its own bounds are given they hold. Windows of L points end where their part ends and
go back by a stride (L/4 in training, L elsewhere); the oldest remainder is dropped. A part shorter than L has one
window, its front empty: short series are padded on the left. A window that observes fewer than two tokens, or the same
value at every point, has nothing to be rebuilt and is left out, as is a series that does not move in training.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.series.gaps import fill_gaps
from fedloom.data.series.table import SeriesSet, series_names
from fedloom.data.split import PARTS, Split, first_steps, require_split
from fedloom.errors import InputError
from fedloom.partition.folder import SeriesPartition
from fedloom.partition.leakage import check_leakage

Ints = NDArray[np.int64]

LEAST_MOVE = 1e-6  # deviation as a share of the largest value: below it a series is rounding


@dataclass(frozen=True)
class SeriesPartitionSettings:
    """How series become a federation's windows. Lengths are in points.

    ``deal``: who gets a window. ``own``: the client that holds the series. ``domain``: clients are domains.
    ``imbalanced``: all windows in order of their source, cut into ``clients`` runs whose sizes fall geometrically to
    1 - ``imbalance`` of the largest. ``mixed``: all windows dealt evenly to ``clients`` by hash, independent of source.
    """

    length: int = 256
    patch: int = 16
    split: Split = (0.7, 0.1, 0.2)  # training, validation, test, in time
    cap: int = 200_000  # training windows of a source client at most, those whose hash is lowest
    held_cap: int = 2_000  # the same in validation and in test
    deal: Literal["own", "domain", "imbalanced", "mixed"] = "own"
    clients: int = 16  # imbalanced and mixed
    imbalance: float = 0.0  # imbalanced: 1 - smallest / largest

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        if self.patch < 1 or self.length < 2 * self.patch or self.length % self.patch or self.length % 4:
            expected = f"a multiple of 4 and of patch {self.patch}, two patches or more"
            raise InputError(f"partition: length: expected {expected}, found {self.length}")
        require_split(self.split, "partition")
        for name in ("cap", "held_cap", "clients"):
            if getattr(self, name) < 1:
                raise InputError(f"partition: {name}: expected at least 1, found {getattr(self, name)}")
        if not 0 <= self.imbalance < 1:
            raise InputError(f"partition: imbalance: expected a share in [0, 1), found {self.imbalance}")


def make_series_partition(
    data: SeriesSet, settings: SeriesPartitionSettings, targets: SeriesSet | None = None
) -> SeriesPartition:
    """Split every series, cut its windows, measure its scale and deal the windows.

    Raises InputError where no window is left to train on, or where ``data`` hold what is held out in ``targets``.
    """
    compared = None if targets is None else check_leakage(data, targets)
    counts: Counter[str] = Counter()
    scaling, windows = _cut(data.table, settings, counts)
    windows = _capped(windows, data.table, settings, counts)
    names, client = _deal(windows, data.table, settings)
    windows = pd.DataFrame(
        {
            "client": client.astype(np.int32),
            "part": windows["part"].astype("str"),
            "series": windows["series"].astype(np.int32),
            "start": windows["start"].astype(np.int32),
        }
    ).sort_values(["client", "part", "series", "start"], kind="stable", ignore_index=True)
    if not (windows["part"] == "train").any():
        found_points = f"series of at most {max(map(len, data.table['values']))} points"
        raise InputError(f"{data.about['dataset']}: partition: expected a training window, found {found_points}")
    about = {"family": "series", "dataset": data.about["dataset"], "stride": settings.length // 4}
    about |= dataclasses.asdict(settings) | {"counts": dict(+counts), "compared": compared}
    return SeriesPartition(about, _sizes(windows, names), scaling, windows)


def _cut(
    table: pd.DataFrame, settings: SeriesPartitionSettings, counts: Counter[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scale and bounds of every series, and windows: ``part``, ``series`` and ``start``."""
    scales, found = [], []
    for row, (values, validation, test) in enumerate(
        zip(table["values"], table["validation"], table["test"], strict=True)
    ):
        bounds = (int(validation), int(test)) if validation >= 0 else first_steps(len(values), settings.split)
        filled = fill_gaps(values, bounds, settings.patch)
        counts["gap_points_interpolated"] += int(np.isnan(values).sum() - np.isnan(filled).sum())
        mean, sd = _scale(values[: bounds[0]])
        scales.append({"mean": mean, "sd": sd if sd > 0 else 1.0, "validation": bounds[0], "test": bounds[1]})
        if sd == 0:
            counts["series_that_do_not_move_in_training"] += 1
            scales[-1]["mean"] = np.nan
            continue
        for part, limits in zip(PARTS, ((0, bounds[0]), bounds, (bounds[1], len(values))), strict=True):
            starts = _starts(filled, limits, part, settings, counts)
            found.append(pd.DataFrame({"part": part, "series": row, "start": starts}))
    windows = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["part", "series", "start"])
    return pd.DataFrame(scales), windows


def _scale(training: NDArray[np.float32]) -> tuple[float, float]:
    """Mean and population deviation of what is there; 0 where it moves by no more than float32 resolves."""
    there = training[~np.isnan(training)].astype(np.float64)
    if not len(there):
        return float("nan"), 0.0
    sd = float(there.std())
    return float(there.mean()), sd if sd > LEAST_MOVE * np.abs(there).max() else 0.0


def _starts(
    values: NDArray[np.float32],
    limits: tuple[int, int],
    part: str,
    settings: SeriesPartitionSettings,
    counts: Counter[str],
) -> Ints:
    """Starts of the windows of a part in which something can be rebuilt, in time order."""
    low, high = limits
    if high == low:
        return np.empty(0, np.int64)
    length = settings.length
    stride = length // 4 if part == "train" else length
    starts = np.arange(high - length, low - 1, -stride)[::-1] if high - low >= length else np.array([high - length])
    edges = np.clip(starts[:, None] + np.arange(0, length + 1, settings.patch), low, high)
    seen = np.r_[0, np.cumsum(~np.isnan(values))]
    enough = (np.diff(seen[edges], axis=1) > 0).sum(1) >= 2
    if high - low >= length:
        view = np.lib.stride_tricks.sliding_window_view(values, length)[starts]
    else:
        view = values[None, low:high]
    moving = np.fmax.reduce(view, axis=1) > np.fmin.reduce(view, axis=1)
    counts["windows_with_fewer_than_two_tokens"] += int((~enough).sum())
    counts["windows_of_one_value"] += int((enough & ~moving).sum())
    return starts[enough & moving]


def _capped(
    windows: pd.DataFrame, table: pd.DataFrame, settings: SeriesPartitionSettings, counts: Counter[str]
) -> pd.DataFrame:
    """At most so many windows of each source client and part, those whose hash is lowest."""
    hashed = _hash(windows, table)
    source = table["client"].to_numpy()[windows["series"].to_numpy(np.int64)]
    keyed = windows.assign(source=source, hashed=hashed)
    rank = keyed.groupby(["source", "part"])["hashed"].rank(method="first")
    limit = np.where(windows["part"] == "train", settings.cap, settings.held_cap)
    kept = (rank <= limit).to_numpy()
    counts["windows_beyond_the_cap"] += int((~kept).sum())
    return windows[kept].reset_index(drop=True)


def _hash(windows: pd.DataFrame, table: pd.DataFrame) -> NDArray[np.uint64]:
    """A number for each window that depends on its series' name and its start alone."""
    of_series = pd.util.hash_array(series_names(table).to_numpy(object))[windows["series"].to_numpy(np.int64)]
    return pd.util.hash_array(windows["start"].to_numpy(np.int64).astype(np.uint64) ^ of_series)


def _deal(windows: pd.DataFrame, table: pd.DataFrame, settings: SeriesPartitionSettings) -> tuple[list[str], Ints]:
    """Names of the clients and the client of each window."""
    series = windows["series"].to_numpy(np.int64)
    if settings.deal in ("own", "domain"):
        client, holders = pd.factorize(table["client" if settings.deal == "own" else "domain"])
        return list(holders), client[series]
    names = [f"{settings.deal}{number:03d}" for number in range(settings.clients)]
    source = pd.factorize(table["client"])[0][series]
    hashed, start = _hash(windows, table), windows["start"].to_numpy(np.int64)
    shares = (1 - settings.imbalance) ** (np.arange(settings.clients) / max(1, settings.clients - 1))
    ends = np.cumsum(shares) / shares.sum()
    client = np.empty(len(windows), np.int64)
    for part in PARTS:
        rows = np.flatnonzero((windows["part"] == part).to_numpy())
        place = np.arange(len(rows))
        if settings.deal == "mixed":
            client[rows[np.argsort(hashed[rows], kind="stable")]] = place % settings.clients
        else:
            order = np.lexsort((start[rows], series[rows], source[rows]))
            client[rows[order]] = np.searchsorted(np.rint(ends * len(rows)), place, side="right")
    return names, client


def _sizes(windows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    counts = windows.groupby(["client", "part"]).size().unstack(fill_value=0)
    counts = counts.reindex(index=range(len(names)), columns=list(PARTS), fill_value=0)
    return counts.set_axis(pd.Index(names, name="client", dtype="str"), axis=0).astype(np.int64)
