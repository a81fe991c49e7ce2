"""Time stamps of tables: ISO 8601, or whatever pattern a dataset's file gives; nothing is guessed.

A guess is what makes 04.03.2024 the third of April in one place and the fourth of March in another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedloom.errors import InputError

ISO = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?"
"""What is read without a pattern; the only group is the offset from UTC."""
EXPECTED = "a stamp like 2024-03-31, 2024-03-31 14:00 or 2024-03-31T14:00:00+02:00"
YEARS = 1678, 2261  # the whole years that nanoseconds since 1970 reach in 64 bits


def is_local(text: str) -> bool:
    """Whether ``text`` is a date or a stamp that is read without a pattern, with no offset from UTC."""
    try:
        return parse_stamps(pd.Series([text]), Path()).tz is None
    except InputError:
        return False


def is_zone(name: str) -> bool:
    """Whether ``name`` is a time zone that this machine knows."""
    try:
        pd.Timestamp(0, tz=name)
    except (KeyError, ValueError):  # the first is what an unknown name raises
        return False
    return True


def parse_stamps(column: pd.Series, path: Path, pattern: str | None = None) -> pd.DatetimeIndex:
    """Stamps in nanoseconds: naive where they have no offset, in UTC where all have one.

    Text is ISO 8601, or ``pattern`` as ``strptime`` reads it; columns that hold stamps already are taken as they are.

    Raises InputError that names the first row without a stamp, or with an offset where row 1 has none (or without).
    """
    expected = EXPECTED if pattern is None else f"a stamp written as {pattern}"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        stamps = pd.DatetimeIndex(column)
    elif pattern is None:
        text = column.astype("str")
        found = text.str.fullmatch(ISO).to_numpy(bool)
        _refuse(~found, column, path, expected)
        offset = text.str.extract(f"^{ISO}$", expand=False).notna().to_numpy()
        wanted = "an offset from UTC" if offset[0] else "no offset from UTC"
        _refuse(offset != offset[0], column, path, f"a stamp with {wanted}, as in row 1")
        stamps = pd.DatetimeIndex(pd.to_datetime(text, errors="coerce", format="ISO8601", utc=bool(offset[0])))
    else:
        zoned = "%z" in pattern
        stamps = pd.DatetimeIndex(pd.to_datetime(column.astype("str"), errors="coerce", format=pattern, utc=zoned))
    within = (stamps.year >= YEARS[0]) & (stamps.year <= YEARS[1])
    _refuse(np.asarray(stamps.isna() | ~within), column, path, expected)
    stamps = stamps if stamps.tz is None else stamps.tz_convert("UTC")
    return stamps.as_unit("ns").rename("timestamp")


def on_clock(index: pd.DatetimeIndex, zone: str | None) -> pd.DatetimeIndex:
    """Naive stamps as the clock of ``zone`` shows them, UTC's where none is named; naive ones as they are."""
    return index if index.tz is None else index.tz_convert(zone or "UTC").tz_localize(None)


def _refuse(wrong: np.ndarray, column: pd.Series, path: Path, expected: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        place = f"row {row + 1}" if column.name is None else f"column {str(column.name)!r}, row {row + 1}"
        raise InputError(f"{path}: {place}: expected {expected}, found {str(column.iloc[row])!r}")
