"""A regular time axis: repairs that are safe are made and counted, everything else is refused in one line."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.panels.settings import PanelSettings
from fedloom.errors import InputError

LITERAL_TOLERANCE = 5e-5  # as BasicTS compares with its null value


def regular(values: pd.DataFrame, settings: PanelSettings) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return ``values`` on an axis of one row an interval, and how many repairs of each kind that took.

    Unsorted rows are sorted; rows repeated exactly are dropped; absent steps are inserted without readings.
    Where ``settings.timezone`` names whose clock the stamps follow, an hour that this clock skips is no gap, and of an
    hour that it repeats the first pass is kept. Two different rows of one stamp are refused otherwise.
    """
    repairs: dict[str, int] = {}
    values = values.set_axis(pd.DatetimeIndex(values.index, name="timestamp").as_unit("ns"), axis=0)
    values = _unique(_sorted(values, repairs), settings, repairs)
    step = pd.Timedelta(minutes=settings.interval_minutes)
    expected = pd.date_range(values.index[0], values.index[-1], freq=step, name="timestamp", unit="ns")
    stray = values.index.difference(expected)
    if len(stray):
        every = settings.interval_minutes
        raise InputError(f"{settings.dataset}: stamps: expected one every {every} minutes, found {stray[0]}")
    absent = expected.difference(values.index)
    skipped = absent[_skipped(absent, settings.timezone)]
    inserted = absent.difference(skipped)
    _count(repairs, "skipped_hour_steps", len(skipped))
    _count(repairs, "inserted_steps", len(inserted))
    return values.reindex(expected.difference(skipped)), repairs


def null_missing(values: pd.DataFrame, literal: float | None) -> pd.DataFrame:
    """Return ``values`` as float32 with null for every reading that equals ``literal`` or is infinite."""
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan).copy()
    numbers[~np.isfinite(numbers)] = np.nan
    if literal is not None:
        numbers[np.abs(numbers - literal) <= LITERAL_TOLERANCE] = np.nan
    return pd.DataFrame(numbers.astype(np.float32), index=values.index, columns=values.columns.astype("str"))


def _sorted(values: pd.DataFrame, repairs: dict[str, int]) -> pd.DataFrame:
    _count(repairs, "unsorted_stamps", int((np.diff(values.index.asi8) < 0).sum()))
    return values.sort_index(kind="stable") if repairs else values


def _unique(values: pd.DataFrame, settings: PanelSettings, repairs: dict[str, int]) -> pd.DataFrame:
    index = values.index
    again = index.duplicated()
    if not again.any():
        return values
    repeated_hour = again & _ambiguous(index, settings.timezone)
    same = values.reset_index().duplicated().to_numpy()
    conflict = again & ~same & ~repeated_hour
    if conflict.any():
        stamp = index[int(conflict.argmax())]
        raise InputError(f"{settings.dataset}: stamps: expected each once, found {stamp} twice with other readings")
    _count(repairs, "repeated_hour_stamps", int(repeated_hour.sum()))
    _count(repairs, "duplicate_stamps", int((again & ~repeated_hour).sum()))
    return values[~again]


def _skipped(index: pd.DatetimeIndex, zone: str | None) -> np.ndarray:
    if zone is None:
        return np.zeros(len(index), dtype=bool)
    return np.asarray(index.tz_localize(zone, nonexistent="NaT", ambiguous=np.ones(len(index), dtype=bool)).isna())


def _ambiguous(index: pd.DatetimeIndex, zone: str | None) -> np.ndarray:
    if zone is None:
        return np.zeros(len(index), dtype=bool)
    return np.asarray(index.tz_localize(zone, nonexistent="shift_forward", ambiguous="NaT").isna())


def _count(repairs: dict[str, int], name: str, count: int) -> None:
    if count:
        repairs[name] = count
