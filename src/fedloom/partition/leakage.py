"""Does a pretraining federation hold what a target is judged on? Compared by content, whatever the names.

Every stretch of 65 points is reduced to the 64 signs of its steps, up or not: scaling, shifting and mild rounding leave
them as they are. Where a federation's stretch (at any offset) has the signs of a target's (every 16th), the values
themselves decide: a correlation above .999. So any common run of 80 points is found, under any affine scale, as long
as it moves to and fro; a copy at another sampling rate is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.series.table import SeriesSet
from fedloom.errors import InputError

STEPS = 64
EVERY = 16
LEAST_TURNS = 8  # a stretch that hardly turns has signs that many others have
LEAST_VALUES = 16  # the same of one that takes few values, such as a switch
SAME = 0.999


@dataclass(frozen=True)
class _Stretches:
    """Signs of the stretches of all targets, sorted, with the row and first point of each."""

    signs: NDArray[np.uint64]
    row: NDArray[np.int64]
    start: NDArray[np.int64]


def check_leakage(data: SeriesSet, targets: SeriesSet) -> dict[str, Any]:
    """Raise InputError where ``data`` hold values of ``targets``; else say what was compared.

    A client of ``data`` that is marked as seen may hold what the training parts of a target hold, any other nothing.
    """
    known = _stretches(targets.table)
    rows = zip(*(data.table[name] for name in ("client", "id", "channel", "values")), strict=True)
    trained: dict[str, frozenset[int]] = {}
    compared = 0
    for client, id_, channel, values in rows:
        at, signs = signs_of(values)
        compared += len(at)
        allowed = client in data.about["seen"]
        for start, sign, place in _matches(at, signs, known):
            target = targets.table.iloc[known.row[place]]
            begin = int(known.start[place])
            if not _same(values[start : start + STEPS + 1], target["values"][begin : begin + STEPS + 1]):
                continue
            # A series may repeat itself: what its training part holds too is no news of its test part.
            if allowed:
                name = target["client"]
                trained[name] = trained[name] if name in trained else _of_training(targets.table, name)
                if sign in trained[name]:
                    continue
            rule = "the training part of targets at most" if allowed else "no values of held-out targets"
            theirs = f"those of {target['client']}/{target['id']}/{target['channel']}, point {begin}"
            mine = f"series {client}/{id_}/{channel}, point {start}"
            raise InputError(f"{data.about['dataset']}: {mine}: expected {rule}, found {theirs}")
    return {"targets": targets.about["dataset"], "target_stretches": len(known.signs), "stretches": compared}


def signs_of(values: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """First points of the stretches that can be compared, and the 64 signs of each as one number."""
    if len(values) <= STEPS:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    up = values[1:] > values[:-1]
    signs, width = up.astype(np.uint64), 1
    while width < STEPS:
        signs = (signs[:-width] << np.uint64(width)) | signs[width:]
        width *= 2
    turns = np.r_[0, np.cumsum(up[1:] != up[:-1])]
    gone = np.r_[0, np.cumsum(np.isnan(values))]
    whole = gone[STEPS + 1 :] == gone[: -STEPS - 1]
    lively = turns[STEPS - 1 :] - turns[: len(turns) - STEPS + 1] >= LEAST_TURNS
    at = np.flatnonzero(whole & lively)
    return at, signs[at]


def _of_training(table: pd.DataFrame, client: str) -> frozenset[int]:
    """Signs of all stretches in the training parts of a target."""
    own = table[table["client"] == client]
    parts = [values[:end] for values, end in zip(own["values"], own["validation"], strict=True) if end > 0]
    return frozenset(sign for part in parts for sign in signs_of(part)[1].tolist())


def _stretches(table: pd.DataFrame) -> _Stretches:
    signs, rows, starts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for row, values in enumerate(table["values"]):
        at, found = signs_of(values)
        chosen = at % EVERY == 0
        signs.append(found[chosen])
        starts.append(at[chosen])
        rows.append(np.full(int(chosen.sum()), row))
    every = np.concatenate(signs)
    order = np.argsort(every, kind="stable")
    return _Stretches(every[order], np.concatenate(rows)[order], np.concatenate(starts)[order])


def _matches(at: NDArray[np.int64], signs: NDArray[np.uint64], known: _Stretches) -> Iterator[tuple[int, int, int]]:
    """First point, signs and place in ``known`` of every pair of stretches that have the same signs."""
    if not len(known.signs):
        return
    first = np.searchsorted(known.signs, signs)
    hit = known.signs[np.minimum(first, len(known.signs) - 1)] == signs
    last = np.searchsorted(known.signs, signs[hit], side="right")
    for start, sign, low, high in zip(at[hit], signs[hit], first[hit], last, strict=True):
        for place in range(int(low), int(high)):
            yield int(start), int(sign), place


def _same(mine: NDArray[np.float32], theirs: NDArray[np.float32]) -> bool:
    """Whether two stretches are one up to a scale and a shift."""
    if min(len(np.unique(mine)), len(np.unique(theirs))) < LEAST_VALUES:
        return False
    return bool(np.corrcoef(mine.astype(np.float64), theirs.astype(np.float64))[0, 1] > SAME)
