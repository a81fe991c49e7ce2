"""The small problem of recordings to be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from fedloom.check.problem import CLIENTS, NAMES, PROTOCOL
from fedloom.data.series.table import SeriesSet
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.series import SeriesTask, series_task
from fedloom.models.patch_transformer import PatchTransformerModel

LENGTH, PATCH = 16, 2


@dataclass(frozen=True)
class SeriesProblem:
    """Two recordings a client, of unequal length and with gaps; e's are too short to have a training part.

    ``values`` are the recordings, ``client`` [n] says whose each is; a third of each, its last, is validation and test.
    """

    name: ClassVar[str] = "series"
    answer: ClassVar[str] = "x"

    ids: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    client: tuple[int, ...]

    @classmethod
    def small(cls, equal: bool = False) -> SeriesProblem:
        """Waves of each client's own period, level and noise, a tenth of the points missing.

        No method of this family couples its clients, so they are never made equal.
        """
        rng = np.random.default_rng(13)
        client = tuple(c for c in range(CLIENTS) for _ in range(2))
        values = []
        for owner, n in zip(client, (300, 180, 150, 200, 240, 150, 120, 300, 80, 60), strict=True):
            wave = rng.uniform(5, 50) + 4 * np.sin(2 * np.pi * np.arange(n) / (6 + 3 * owner) + rng.uniform(0, 6))
            wave = wave + rng.normal(0, 0.3 * (owner + 1), n)
            wave[rng.uniform(size=n) < 0.1] = np.nan
            values.append(wave)
        return cls(tuple(NAMES), tuple(values), client)

    @staticmethod
    def model() -> PatchTransformerModel:
        """A small client model that learns the problem."""
        return PatchTransformerModel(PatchTransformerModel.Params(width=8, layers=2, heads=2))

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> SeriesTask:
        """The problem as a task on ``device``."""
        names = [self.ids[c] for c in self.client]
        number = [str(self.client[: i + 1].count(c)) for i, c in enumerate(self.client)]
        table = pd.DataFrame({"client": names, "id": number, "channel": "", "values": list(self.values)})
        ends = [_ends(values) for values in self.values]
        seen = [values[: validation or None] for values, (validation, _) in zip(self.values, ends, strict=True)]
        scaling = pd.DataFrame(ends, columns=["validation", "test"])
        scaling["mean"], scaling["sd"] = [np.nanmean(v) for v in seen], [np.nanstd(v) for v in seen]
        rows = []
        for series, (owner, values) in enumerate(zip(self.client, self.values, strict=True)):
            bounds = (0, *ends[series], len(values))
            for part, first, last in zip(("train", "validation", "test"), bounds[:-1], bounds[1:], strict=True):
                # The first window of a part reaches back beyond it, where it sees nothing.
                starts = range(first - PATCH, last - LENGTH + 1, LENGTH // 4) if last > first else ()
                rows += [(owner, part, series, start) for start in starts]
        windows = pd.DataFrame(rows, columns=["client", "part", "series", "start"])
        partition = {"dataset": "check", "length": LENGTH, "patch": PATCH}
        clients = pd.DataFrame(index=list(self.ids))
        data = SeriesSet(table, {})
        return series_task(data, partition, clients, scaling, windows, protocol, torch.device(device))

    def pick(self, order: list[int]) -> SeriesProblem:
        """The same problem with these clients, in this order."""
        place = {old: new for new, old in enumerate(order)}
        kept = sorted((i for i, c in enumerate(self.client) if c in place), key=lambda i: (place[self.client[i]], i))
        client = tuple(place[self.client[i]] for i in kept)
        return SeriesProblem(tuple(self.ids[c] for c in order), tuple(self.values[i] for i in kept), client)

    def spoiled_test(self) -> SeriesProblem:
        """Test values of 1e6."""
        spoiled = tuple(values.copy() for values in self.values)
        for values in spoiled:
            values[_ends(values)[1] :] = 1e6
        return replace(self, values=spoiled)

    def disturbed(self, client: int) -> SeriesProblem:
        """One client's recordings with a wave on top."""
        values = list(self.values)
        for i, owner in enumerate(self.client):
            if owner == client:
                values[i] = values[i] + 3 * np.sin(np.arange(len(values[i])))
        return replace(self, values=tuple(values))


def _ends(values: np.ndarray) -> tuple[int, int]:
    """First points of the validation and test parts; a recording of under a hundred points has no training part."""
    n = len(values)
    return (0, n // 2) if n < 100 else (n * 2 // 3, n * 5 // 6)
