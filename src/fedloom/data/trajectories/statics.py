"""Statics2011: learners who solve steps of engineering problems (OLI Engineering Statics, Fall 2011).

Three lines a learner: number of answers, items, correctness; no times and no names. An item's difficulty is learnt
here, from the training owners alone, because the action itself depends on it: the split of owners is a function of
their names and so is known before the partition exists.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.raw import Raw, RawFolder
from fedloom.data.tables import read_lines, read_table
from fedloom.data.trajectories.owners import owner_parts
from fedloom.data.trajectories.sequences import Cut, Sequences, cut
from fedloom.data.trajectories.table import Steps
from fedloom.errors import InputError

PSEUDO_COUNT = 5  # answers at the mean rate that every item has beforehand: a rare item is of middling difficulty
X_NAMES = ("log_answers_before", "chunk_sixth", "mean_before", "sd_before", "distinct_before", "first_chunk")
X_KINDS = ("continuous",) * 5 + ("binary",)


def statics(
    raw: RawFolder, *, variant: str = "difficulty", longest: int = 200, least: int = 5, bins: int = 5
) -> Sequences:
    """Read learners as sequences of at most ``longest`` answers; chunks shorter than ``least`` are left out.

    variant: what the action is: ``item`` (the item itself, as published: too many for any two to have support) or
    ``difficulty`` (which of ``bins`` quantiles of training answers the item's difficulty lies in). The context is the
    mean difficulty of the item's concept: that of the item itself would give the action away.
    """
    if variant not in ("item", "difficulty"):
        raise InputError(f"trajectories: options: variant: expected item or difficulty, found {variant!r}")
    skill_of = _skills(raw.open("skills"))
    owner, item, y, empty = _answers(raw.open("answers"), skill_of)
    parts = cut(owner, None, longest, least)
    item, y, owner = item[parts.order], y[parts.order], owner[parts.order]
    train = owner_parts(owner) == "train"
    difficulty = _difficulty(item[train], y[train], len(skill_of))
    concept = skill_of.to_numpy()
    context = _difficulty(concept[item[train]], y[train], int(concept.max()) + 1)[concept[item]]
    action = item if variant == "item" else _quantile(difficulty[item], train, bins)
    steps = Steps(
        start=parts.start,
        x=_record_before(parts, item, y),
        a=context[:, None].astype(np.float32),
        t=action.astype(np.int32),
        y=y.astype(np.float32),
        propensity=np.full(len(y), np.nan),
    )
    about = {
        "actions": len(skill_of) if variant == "item" else bins,
        "other_action": None,
        "x_names": list(X_NAMES),
        "x_kinds": list(X_KINDS),
        "a_names": ["concept_difficulty"],
        "a_kinds": ["continuous"],
        "exclusions": {"owners_without_steps": empty, f"chunks_below_{least}_steps": parts.short},
    }
    return Sequences(owner[parts.first], steps, about)


def _skills(file: Raw) -> pd.Series:
    """Code of the concept (0, 1 ...) of each item (index 0, 1 ...)."""
    table = read_table(file, sep="\t")
    if list(table.columns[:2]) != ["qid", "skillid"]:
        raise InputError(f"{file.path}: expected columns qid, skillid, found {', '.join(table.columns[:2])}")
    items = table["qid"].tolist()
    if sorted(items) != list(range(1, len(items) + 1)):
        raise InputError(f"{file.path}: qid: expected each of 1 to {len(items)} once, found other items")
    concept = pd.Series(pd.factorize(table["skillid"], sort=True)[0], index=table["qid"] - 1)
    return concept.sort_index()


def _answers(file: Raw, skill_of: pd.Series) -> tuple[NDArray[np.str_], NDArray[np.int64], NDArray[np.int64], int]:
    """Owner, item (from 0) and correctness of every answer, and how many learners have none."""
    owner, item, y, empty = [], [], [], 0
    lines = read_lines(file)
    if len(lines) % 3:
        raise InputError(f"{file.path}: expected three lines a learner, found {len(lines)} lines")
    for learner in range(len(lines) // 3):
        count, items, right = (list(_numbers(lines[3 * learner + i], file, 3 * learner + i + 1)) for i in range(3))
        where = f"{file.path}: line {3 * learner + 1}"
        if len(count) != 1 or not count[0] == len(items) == len(right):
            found = f"{len(items)} and {len(right)}"
            raise InputError(f"{where}: expected {lines[3 * learner]} items and as many answers, found {found}")
        for name, values, low, high in (("item", items, 1, len(skill_of)), ("answer", right, 0, 1)):
            wrong = [value for value in values if not low <= value <= high]
            if wrong:
                raise InputError(f"{where}: {name}: expected an id from {low} to {high}, found {wrong[0]}")
        empty += not items
        owner += [f"learner{learner:04d}"] * len(items)
        item += items
        y += right
    return np.asarray(owner, dtype=np.str_), np.asarray(item, dtype=np.int64) - 1, np.asarray(y, dtype=np.int64), empty


def _numbers(line: str, file: Raw, number: int) -> Iterator[int]:
    for word in line.strip().strip(",").split(","):
        if word:
            try:
                yield int(word)
            except ValueError:
                raise InputError(f"{file.path}: line {number}: expected whole numbers, found {word!r}") from None


def _difficulty(group: NDArray[np.int64], y: NDArray[np.int64], groups: int) -> NDArray[np.float64]:
    """1 - the smoothed mean correctness of each group (item or concept)."""
    mean = y.mean()
    right = np.bincount(group, weights=y, minlength=groups)
    return 1 - (right + PSEUDO_COUNT * mean) / (np.bincount(group, minlength=groups) + PSEUDO_COUNT)


def _quantile(values: NDArray[np.float64], train: NDArray[np.bool_], bins: int) -> NDArray[np.int64]:
    """Which of ``bins`` quantiles of the training rows each value lies in."""
    limits = np.quantile(values[train], np.arange(1, bins) / bins)
    return np.searchsorted(limits, values, side="right")


def _record_before(parts: Cut, item: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.float32]:
    """What a learner had done before each chunk: ``X_NAMES``, zeros and a 1 before the first one."""
    rows = []
    begun = 0
    for chunk, first in zip(parts.chunk, parts.first, strict=True):
        if chunk == 0:
            begun = first
            rows.append([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            continue
        before = y[begun:first]
        distinct = len(np.unique(item[begun:first])) / len(before)
        rows.append([np.log(len(before)), chunk / 6, before.mean(), before.std(), distinct, 0.0])
    return np.asarray(rows, dtype=np.float32)
