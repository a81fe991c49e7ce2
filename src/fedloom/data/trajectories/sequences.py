"""The preprocessing that every log of decisions shares: group by owner, order, cut into chunks, code categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table
from fedloom.errors import InputError


@dataclass(frozen=True)
class Sequences:
    """What a reader makes of raw files: n sequences in the order of their ids.

    owner, label: one entry a sequence. about: those keys of ``TrajectorySet.about`` that the reader knows (``actions``,
    ``other_action``, ``x_names``, ``a_names``, kinds, exclusions ...).
    """

    owner: NDArray[np.str_]
    steps: Steps
    about: dict[str, Any]
    label: NDArray[np.str_] | None = None

    def named(self, dataset: str, part: str | None, unit: str) -> TrajectorySet:
        """The trajectories of ``dataset``; a count of exclusions that is zero is not told."""
        table = trajectory_table(np.arange(len(self.owner)), self.owner, self.steps, self.label)
        about = self.about | {
            "dataset": dataset,
            "part": part,
            "unit": unit,
            "dx": self.steps.x.shape[1],
            "da": self.steps.a.shape[1],
            "longest": int(self.steps.length.max(initial=0)),
            "rows": len(self.owner),
            "owners": len(np.unique(self.owner)),
            "exclusions": {reason: int(count) for reason, count in self.about["exclusions"].items() if count},
        }
        return TrajectorySet(table, about)


@dataclass(frozen=True)
class Cut:
    """Steps in the order of owner and time, cut into sequences.

    order: which raw rows are kept, [steps]. start: limits of the sequences, [n + 1]. position: number of the step in
    its owner's whole record, from 0, [steps]. chunk: number of the sequence among its owner's, [n]. short: chunks that
    were left out for being too short.
    """

    order: NDArray[np.int64]
    start: NDArray[np.int64]
    position: NDArray[np.int64]
    chunk: NDArray[np.int64]
    short: int

    @property
    def first(self) -> NDArray[np.int64]:
        """The place of the first step of each sequence, [n]."""
        return self.start[:-1]


def cut(owner: NDArray[np.str_], time: NDArray[Any] | None, longest: int, least: int = 1) -> Cut:
    """Cut each owner's steps, in the order of ``time``, into chunks of ``longest``; leave out those below ``least``.

    Steps of one time, or all where ``time`` is None, keep the order of the rows.
    """
    order = np.arange(len(owner)) if time is None else np.argsort(time, kind="stable")
    order = order[np.argsort(owner[order], kind="stable")]
    sorted_owner = owner[order]
    new = np.r_[True, sorted_owner[1:] != sorted_owner[:-1]][: len(order)]
    begun = np.flatnonzero(new)
    position = np.arange(len(order)) - np.repeat(begun, np.diff(np.r_[begun, len(order)]))
    first = np.flatnonzero(position % longest == 0)
    length = np.diff(np.r_[first, len(order)])
    keep = length >= least
    kept = np.repeat(keep, length)
    return Cut(
        order=order[kept],
        start=np.r_[0, np.cumsum(length[keep])].astype(np.int64),
        position=position[kept],
        chunk=(position[first] // longest)[keep],
        short=int((~keep).sum()),
    )


def refuse_rows(wrong: Any, values: Any, where: object, name: str, expected: str) -> None:
    """Raise InputError for the first row that is ``wrong``, with its number (from 1) and its value."""
    wrong = np.asarray(wrong, dtype=bool)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{where}: row {row + 1}: {name}: expected {expected}, found {np.asarray(values)[row]}")


def refuse_turning_back(time: pd.Series, where: object, name: str) -> None:
    """Raise InputError for the first row whose ``time`` lies before that of the row above."""
    back = (time < time.shift()).to_numpy()
    if back.any():
        row = int(back.argmax())
        before, found = time.iloc[row - 1], time.iloc[row]
        raise InputError(f"{where}: row {row + 1}: {name}: expected a time not before {before}, found {found}")


def without_duplicates(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """``table`` with each row once, and how many were left out as repeating another."""
    again = table.duplicated()
    return table[~again].reset_index(drop=True), int(again.sum())


def one_hot(values: pd.Series, groups: Sequence[object]) -> NDArray[np.float32]:
    """Columns [rows, groups], 1 where the value is the group; a value that is no group has no 1."""
    return (values.to_numpy()[:, None] == np.asarray(groups, dtype=object)[None, :]).astype(np.float32)


@dataclass(frozen=True)
class Codes:
    """Codes 1, 2 ... of the values that training rows have, in their order; 0 is any other value."""

    levels: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, training: pd.Series) -> Codes:
        """The codes of the values in ``training``."""
        return cls(tuple(sorted(training.unique())))

    def __call__(self, values: pd.Series) -> NDArray[np.int64]:
        """The code of each value."""
        return pd.Index(self.levels).get_indexer(values) + 1

    @property
    def count(self) -> int:
        """Number of codes, the one for other values included."""
        return len(self.levels) + 1
