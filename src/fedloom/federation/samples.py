"""Samples of clients of unequal size, whatever the family: which are kept, how they lie side by side, in what order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.federation.task import Predict, Task

Whole = NDArray[np.int64]


def on_device(array: NDArray[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A copy of an array as a contiguous tensor."""
    return torch.from_numpy(np.array(array, order="C")).to(device=device, dtype=dtype)


def thinned(key: Whole, owner: Whole, one_in: int) -> Whole:
    """Places of one sample in ``one_in`` of each owner's, at least one, in order: those whose ``key`` is lowest.

    Keys are hashes, so that what is kept follows no time of day.
    """
    if one_in == 1:
        return np.arange(len(key))
    order = np.lexsort((key, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    size = np.bincount(owner)[owner[order]] if len(owner) else owner
    return np.sort(order[rank < -(-size // one_in)])


def side_by_side(values: Whole, owner: Whole, clients: int) -> tuple[Whole, Whole]:
    """Each client's values in their order as [C, n], -1 beyond the last, and how many it has [C]; n is at least 1."""
    order, counts = np.argsort(owner, kind="stable"), np.bincount(owner, minlength=clients)
    table = np.full((clients, max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
    table[owner[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)] = values[order]
    return table, counts


def located(table_CN: Tensor, count_C: Tensor, rows: Tensor, samples_CB: Tensor) -> tuple[Tensor, Tensor]:
    """Entries [c, B] of ``side_by_side``'s table at each client's sample numbers, and whether each exists.

    ``rows`` [c] are the clients. What does not exist has some entry that is there, or 0.
    """
    exists = samples_CB < count_C.to(table_CN.device)[rows][:, None]
    return table_CN[rows[:, None], samples_CB.where(exists, 0)].clamp(min=0), exists


def stretches(count_C: Tensor, width: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """All sample numbers in order, ``width`` at a time (at least 1): (clients [C], numbers [C, B]).

    They run as far as the largest client's, beyond a smaller one's size too.
    """
    rows = torch.arange(len(count_C), device=device)
    longest, width = int(count_C.max()) if len(count_C) else 0, max(1, width)
    for begin in range(0, longest, width):
        numbers = torch.arange(begin, min(begin + width, longest), device=device)
        yield rows, numbers.expand(len(rows), -1)


def answered(task: Task, part: str, predict: Predict, chunk: int) -> Iterator[tuple[Tensor, Tensor, Any, Any]]:
    """All of a part's samples and what is predicted for them: (clients [c], numbers [c, B], batch, prediction)."""
    for rows, numbers in task.chunks(part, chunk):
        batch = task.batch(part, rows, numbers)
        yield rows, numbers, batch, predict(batch, rows)
