"""From settings and raw files, a folder, a generator or another dataset to checked series."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.raw import RawFolder
from fedloom.data.series.arrow_folder import read_collection, season
from fedloom.data.series.clean import null, regular, trimmed, unusable
from fedloom.data.series.readers import READERS
from fedloom.data.series.recordings import Recording
from fedloom.data.series.settings import SeriesSettings, Source
from fedloom.data.series.table import SCHEMA, SeriesSet, describe, read_series
from fedloom.data.series.tsgen import generate
from fedloom.data.split import first_steps
from fedloom.errors import InputError

Row = dict[str, Any]


class _Counts:
    """What was cleaned and what was left out, by client and reason."""

    def __init__(self) -> None:
        self.cleaned: dict[str, Counter[str]] = {}
        self.exclusions: dict[str, Counter[str]] = {}

    def of(self, client: str) -> tuple[Counter[str], Counter[str]]:
        """The two counters of ``client``."""
        return self.cleaned.setdefault(client, Counter()), self.exclusions.setdefault(client, Counter())

    def told(self) -> dict[str, dict[str, dict[str, int]]]:
        """Both as plain data, without reasons that never applied."""
        both = {"cleaned": self.cleaned, "exclusions": self.exclusions}
        return {
            kind: {client: dict(counter) for client, counts in by_client.items() if (counter := +counts)}
            for kind, by_client in both.items()
        }


def build_series(settings: SeriesSettings, raw: Path, other: Path | None = None) -> SeriesSet:
    """Return the series that ``settings`` describe.

    ``raw`` is the folder of the dataset's raw files, ``other`` the series of the dataset that ``series_of`` names.
    Raises InputError for data that are missing, damaged or not what the settings say.
    """
    if settings.series_of is not None:
        if other is None:
            raise InputError(f"{settings.dataset}: series_of: expected the series of {settings.series_of}, found none")
        data = read_series(other)
        about = data.about | {"dataset": settings.dataset, "part": settings.part or data.about["part"]}
        return SeriesSet(data.table, about)
    counts = _Counts()
    bias: dict[str, dict[str, Any]] = {}
    if settings.generate is not None:
        made, bias = generate(settings.generate)
        rows = [
            _row(**row, channel="value", domain="generated", seconds=float("nan")) for row in made.to_dict("records")
        ]
    elif settings.collection is not None:
        rows = []
        for client, domain, seconds, recordings in read_collection(settings.collection):
            known = {"domain": domain, "seconds": seconds, "season": season(seconds)}
            for recording in recordings:
                rows += _pretraining(client, null(recording, (), counts.of(client)[0]), known, counts)
    else:
        rows = [row for client, source in settings.sources.items() for row in _client(client, source, raw, counts)]
    if not rows:
        raise InputError(f"{settings.dataset}: expected series, found none that can be used")
    table = pd.DataFrame(rows)[SCHEMA.names]
    seen = [client for client, source in settings.sources.items() if source.seen]
    about = {"dataset": settings.dataset, "part": settings.part, "seen": seen, "bias": bias}
    described = describe(table)
    return SeriesSet(table, about | counts.told() | described)


def _client(client: str, source: Source, raw: Path, counts: _Counts) -> list[Row]:
    folder = RawFolder(raw)
    found: list[Recording] = []
    for name, file in source.files.items():
        key, _, member = file.partition("!")
        content = folder.member(key, member) if member else folder.open(key)
        read = READERS.read(source.reader, source.options, content, name)
        if not read or min(recording.length for recording in read) == 0:
            raise InputError(f"{content.path}: expected series, found none")
        found += read
    bounds = source.bounds
    if source.joined:
        found, bounds = _joined(found, client)
    rows: list[Row] = []
    known = {"domain": source.domain, "seconds": source.seconds or float("nan"), "season": source.season}
    for recording in found:
        where = f"{client}/{recording.id}"
        clean = null(recording, source.missing, counts.of(client)[0])
        clean = _cut(regular(_labelled(clean, source, where), source.seconds, where, counts.of(client)[0]), source)
        if source.tasks:
            rows += _target(client, clean, known, source, bounds, counts)
        else:
            rows += _pretraining(client, clean, known, counts)
    return rows


def _joined(found: list[Recording], client: str) -> tuple[list[Recording], tuple[int, int]]:
    """Three recordings as the training, validation and test part of one."""
    first = found[0]
    if len(found) != 3 or any(list(each.channels) != list(first.channels) for each in found):
        raise InputError(f"{client}: joined: expected three recordings of the same channels, found others")
    channels = {name: np.concatenate([each.channels[name] for each in found]) for name in first.channels}
    labels = [np.zeros(each.length, np.int8) if each.label is None else each.label for each in found]
    whole = Recording(first.id, channels, label=np.concatenate(labels))
    return [whole], (first.length, first.length + found[1].length)


def _labelled(recording: Recording, source: Source, where: str) -> Recording:
    """``recording`` with label 1 between the pairs of stamps that the settings give for it."""
    pairs = source.labels.get(recording.id)
    if pairs is None:
        return recording
    if recording.stamps is None:
        raise InputError(f"{where}: labels: expected a file with stamps, found none")
    label = np.zeros(recording.length, np.int8)
    for begin, end in pairs:
        label[(recording.stamps >= pd.Timestamp(begin)) & (recording.stamps <= pd.Timestamp(end))] = 1
    return dataclasses.replace(recording, label=label)


def _cut(recording: Recording, source: Source) -> Recording:
    """The points that the settings take of a recording, from its first."""
    length = recording.length - source.without_last
    length = int(length * source.share) if source.share is not None else length
    case = recording.label is not None and len(recording.label) == 1
    channels = {name: values[:length] for name, values in recording.channels.items()}
    label = recording.label if case or recording.label is None else recording.label[:length]
    return dataclasses.replace(recording, channels=channels, label=label)


def _pretraining(client: str, recording: Recording, known: Row, counts: _Counts) -> list[Row]:
    """Every channel a series of its own, without its missing ends; a label is nothing that pretraining may see."""
    cleaned, exclusions = counts.of(client)
    rows = []
    for channel, values in recording.channels.items():
        reason = unusable(values)
        if reason:
            exclusions[reason] += 1
            continue
        values, before = trimmed(values, cleaned)
        step = pd.Timedelta(0 if np.isnan(known["seconds"]) else known["seconds"] * before, "s")
        row = {"client": client, "id": recording.id, "channel": channel, "start": recording.start + step}
        rows.append(_row(**row, **known, values=values.astype(np.float32)))
    return rows


def _target(
    client: str, recording: Recording, known: Row, source: Source, bounds: tuple[int, int] | None, counts: _Counts
) -> list[Row]:
    length = recording.length
    if "m4" in source.tasks:
        bounds = (length - source.horizon,) * 2
    elif "classification" in source.tasks:
        bounds = (0, 0) if recording.id.startswith("test") else (length, length)
    elif source.split is not None:
        bounds = first_steps(length, source.split)
    if bounds is None or bounds[1] > length:
        raise InputError(f"{client}/{recording.id}: bounds: expected parts within {length} points, found {bounds}")
    rows = []
    for channel, values in recording.channels.items():
        if np.isnan(values).all():
            counts.of(client)[1]["all_missing"] += 1
            continue
        row: Row = {"client": client, "id": recording.id, "channel": channel, "start": recording.start}
        parts: Row = {"validation": bounds[0], "test": bounds[1], "tasks": list(source.tasks), "label": recording.label}
        rows.append(_row(**row, **known, **parts, values=values.astype(np.float32)))
    return rows


def _row(
    *,
    client: str,
    id: str,
    channel: str,
    domain: str,
    seconds: float,
    season: int,
    values: NDArray[np.float32],
    start: pd.Timestamp = pd.NaT,
    validation: int = -1,
    test: int = -1,
    tasks: list[str] | None = None,
    label: NDArray[np.int8] | None = None,
) -> Row:
    """One row of the table of series; what is not given is what most series have."""
    row = {"client": client, "id": id, "channel": channel, "domain": domain, "seconds": seconds, "start": start}
    row |= {"season": season, "validation": validation, "test": test, "tasks": tasks or [], "label": label}
    return row | {"values": values}
