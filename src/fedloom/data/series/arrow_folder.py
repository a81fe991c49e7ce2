"""Folders of arrow files as Hugging Face keeps datasets on disk: UTSD and LOTSA, where a user has them.

A row has ``item_id``, ``start``, ``freq`` and ``target``, a list of numbers or, for several channels, a list of lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fedloom.data.series.recordings import Recording
from fedloom.data.series.settings import Collection
from fedloom.errors import InputError

# Cycles that a clock brings, in seconds: the first that spans at least four points is the main season.
CYCLES = (86_400, 7 * 86_400, 365.25 * 86_400)


def read_collection(settings: Collection) -> Iterator[tuple[str, str, float, list[Recording]]]:
    """Client, domain, seconds between points and recordings, one client after the other.

    Raises InputError for a folder without arrow files or rows of another layout.
    """
    folder = Path(settings.folder)
    files = sorted(folder.rglob("*.arrow"))
    if not files:
        raise InputError(f"{folder}: expected arrow files, found none")
    found: dict[str, list[Recording]] = {}
    domains = dict(settings.domains)
    seconds: dict[str, float] = {}
    for file in files:
        for number, row in enumerate(_rows(file)):
            item = str(row["item_id"])
            client = file.relative_to(folder).parts[0]
            if settings.layout == "utsd":
                domain, client = _named(item, file)
                domains.setdefault(client, domain)
            if client not in settings.without:
                start = pd.Timestamp(row["start"]) if row.get("start") is not None else pd.NaT
                id_ = f"{item}-{number}"
                found.setdefault(client, []).append(Recording(id_, _channels(row["target"], file), start=start))
                seconds.setdefault(client, _seconds(row.get("freq")))
    for client, recordings in found.items():
        yield client, domains.get(client, "unknown"), seconds[client], recordings


def season(seconds: float) -> int:
    """Points of the main season at this sampling interval, 0 where no cycle of the clock fits or it is unknown."""
    fitting = [cycle / seconds for cycle in CYCLES if seconds > 0 and cycle / seconds >= 4]
    return round(fitting[0]) if fitting else 0


def _rows(file: Path) -> Iterator[dict]:
    try:
        with pa.memory_map(str(file)) as source:
            try:
                batches = iter(pa.ipc.open_stream(source))
            except pa.ArrowInvalid:
                reader = pa.ipc.open_file(source)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            for batch in batches:
                missing = {"item_id", "target"} - set(batch.schema.names)
                if missing:
                    raise InputError(f"{file}: expected columns item_id and target, found no {min(missing)}")
                for number in range(batch.num_rows):
                    yield {name: _value(batch.column(name), number, name) for name in batch.schema.names}
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{file}: expected an arrow file, found {str(error).splitlines()[0]}") from error


def _value(column: pa.Array, number: int, name: str) -> object:
    return column[number].values if name == "target" else column[number].as_py()


def _channels(target: pa.Array, file: Path) -> dict[str, NDArray[np.float64]]:
    nested = pa.types.is_list(target.type) or pa.types.is_large_list(target.type)
    lists = [target[i].values for i in range(len(target))] if nested else [target]
    try:
        return {str(i): each.to_numpy(zero_copy_only=False).astype(float) for i, each in enumerate(lists)}
    except (pa.ArrowInvalid, ValueError, TypeError) as error:
        raise InputError(f"{file}: target: expected lists of numbers, found {target.type}") from error


def _named(item: str, file: Path) -> tuple[str, str]:
    """Domain and dataset of an item {domain}_{dataset}_{number}..."""
    parts = item.split("_")
    while len(parts) > 2 and parts[-1].isdigit():
        parts = parts[:-1]
    if len(parts) < 2:
        raise InputError(f"{file}: item_id: expected domain_dataset_number, found {item!r}")
    return parts[0].lower(), "_".join(parts[1:])


def _seconds(freq: object) -> float:
    """Seconds of a pandas frequency; NaN where unknown or a calendar's (a month)."""
    if not isinstance(freq, str):
        return float("nan")
    names = {"H": "h", "T": "min", "S": "s", "L": "ms", "W": "W-SUN"}
    number, letters = freq.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"), freq.lstrip("0123456789")
    try:
        step = pd.Timedelta(pd.tseries.frequencies.to_offset(number + names.get(letters, letters)))
    except ValueError:
        week = letters.startswith("W")
        return 7 * 86_400.0 * int(number or 1) if week else float("nan")
    return step.total_seconds()
