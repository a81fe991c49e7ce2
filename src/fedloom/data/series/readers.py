"""Readers of series: one function a raw layout, found by the name that a dataset's file gives.

Each reads one verified raw file, ``name`` being how the dataset calls it, into recordings; options are keyword
arguments. What has to be cleaned is cleaned afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedloom.data.named import Readers
from fedloom.data.raw import Raw
from fedloom.data.series.recordings import Recording
from fedloom.data.stamps import on_clock, parse_stamps
from fedloom.data.tables import numbers, read_lines, read_table
from fedloom.errors import InputError


def table(
    raw: Raw,
    name: str,
    *,
    stamp: str | None = None,
    pattern: str | None = None,
    start: str | None = None,
    columns: str | None = None,
    label: str | None = None,
    missing: str | None = None,
    rows: int | None = None,
) -> list[Recording]:
    """One recording a table (CSV or parquet), one channel a column of numbers.

    ``stamp``: the column of stamps, ISO 8601 or written as ``pattern``; without it points follow each other evenly
    from ``start``. ``columns``: the channels, separated by "; "; without it every column that holds numbers.
    ``label``: a column of anomaly labels. ``missing``: what the file writes for a missing value, beside leaving it
    empty. ``rows``: how many are read.
    """
    frame = read_table(raw, nrows=rows, na_values=missing).iloc[:rows]
    named = columns.split("; ") if columns else []
    apart = [each for each in (stamp, label) if each]
    for column in [*named, *apart]:
        if column not in frame.columns:
            raise InputError(f"{raw.path}: expected a column {column!r}, found none")
    stamps = None if stamp is None else on_clock(parse_stamps(frame[stamp], raw.path, pattern), zone=None)
    values = frame[named] if named else frame.drop(columns=apart)
    values = numbers(values, raw.path) if named else values.select_dtypes("number")
    if not len(values.columns):
        raise InputError(f"{raw.path}: expected columns of numbers, found {', '.join(map(str, frame.columns))}")
    channels = {str(column): values[column].to_numpy(float) for column in values.columns}
    labels = None if label is None else numbers(frame[[label]], raw.path)[label].to_numpy(float).astype(np.int8)
    return [Recording(name, channels, stamps, pd.Timestamp(start) if start else pd.NaT, labels)]


def tsf(raw: Raw, name: str) -> list[Recording]:
    """Monash's layout: a header of ``@`` lines, then one series a line, ``attributes:...:values``, ``?`` missing."""
    del name
    attributes: list[str] = []
    found: list[Recording] = []
    for number, line in _data(raw, attributes, "latin-1"):
        *given, values = line.split(":")
        if len(given) != len(attributes):
            raise InputError(f"{raw.path}: line {number}: expected {len(attributes)} attributes, found {len(given)}")
        known = dict(zip(attributes, given, strict=True))
        start = pd.to_datetime(known.get("start_timestamp"), format="%Y-%m-%d %H-%M-%S", errors="coerce")
        id_ = known.get("series_name", f"T{len(found) + 1}")
        found.append(Recording(id_, {"value": _floats(values, raw, number)}, start=start))
    return found


def cases(raw: Raw, name: str) -> list[Recording]:
    """The layout ``.ts`` of the UEA and UCR archives: one case a line, ``channel:...:class``. ``name`` begins ids."""
    header: list[str] = []
    found: list[Recording] = []
    for number, line in _data(raw, header, "utf-8", "@classLabel"):
        classes = header[0].split()[1:] if header else []
        *channels, label = line.split(":")
        if label.strip() not in classes:
            expected = ", ".join(classes[:5])
            raise InputError(f"{raw.path}: line {number}: expected a class of {expected}, found {label.strip()!r}")
        values = {str(i): _floats(channel, raw, number) for i, channel in enumerate(channels)}
        if len(found_lengths := {len(channel) for channel in values.values()}) > 1:
            raise InputError(f"{raw.path}: line {number}: expected channels of one length, found {found_lengths}")
        code = np.array([classes.index(label.strip())], np.int8)
        found.append(Recording(f"{name}-{len(found):04d}", values, label=code))
    return found


READERS = Readers[list[Recording]]("series", table, tsf, cases)


def _data(raw: Raw, header: list[str], encoding: str, wanted: str = "@attribute") -> Iterator[tuple[int, str]]:
    """Numbered lines after ``@data``; before them ``header`` gets what follows ``wanted`` in each line of it."""
    begun = False
    for number, line in enumerate(read_lines(raw, encoding), start=1):
        text = line.strip()
        if begun and text:
            yield number, text
        elif text.lower().startswith("@data"):
            begun = True
        elif text.startswith(wanted):
            rest = text.removeprefix(wanted).strip()
            header.append(rest.split()[0] if wanted == "@attribute" else rest)
    if not begun:
        raise InputError(f"{raw.path}: expected a line @data, found none")


def _floats(text: str, raw: Raw, line: int) -> np.ndarray:
    parts = [part.strip() for part in text.split(",")]
    try:
        return np.array([np.nan if part in ("?", "NaN", "") else part for part in parts], dtype=float)
    except ValueError as error:
        raise InputError(f"{raw.path}: line {line}: expected numbers, found {error}") from error
