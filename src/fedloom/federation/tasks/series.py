"""Series: every client holds recordings of its own kind and learns to rebuild what is hidden of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.data.series.gaps import fill_gaps
from fedloom.data.series.table import SeriesSet, lengths, read_series, series_names
from fedloom.data.split import PARTS
from fedloom.errors import InputError
from fedloom.federation.masking import HIDDEN_SHARE, hide, points, visible_scale
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import client_keys, derive, name_key, uniform
from fedloom.federation.samples import answered, on_device, thinned
from fedloom.federation.task import Predict, Validation
from fedloom.partition.folder import SeriesPartition, read_partition


class SeriesWindows(NamedTuple):
    """A minibatch of one client's windows (with a leading client axis outside the loss).

    ``x`` [B, L] in units of the deviation of each series' training part, 0 where missing · ``seen`` [B, L] 1 where
    observed · ``hidden`` [B, n] bool, tokens hidden from the model, the same for a window in every round and run ·
    ``valid`` [B] 0 for padding.
    """

    x: Tensor
    seen: Tensor
    hidden: Tensor
    valid: Tensor


@dataclass(frozen=True)
class WindowList:
    """Windows of a part, client after client, then one empty window that stands for padding.

    ``first`` [W + 1] position of a window's first point in the values (negative where padded), ``low`` [W + 1] position
    before which a window sees nothing, ``key`` [W + 1] seeds its masks, ``home`` [W + 1] the client that it came from,
    ``offset`` [C] where a client's windows begin, ``count`` [C] how many it has.
    """

    first: Tensor
    low: Tensor
    key: Tensor
    home: Tensor
    offset: Tensor
    count: Tensor


@dataclass(frozen=True)
class SeriesTask:
    """Series and their partition on one device; windows are gathered by index, never materialised.

    ``values`` [N] are all series end to end, scaled, NaN where missing; a window has ``length`` points in tokens of
    ``patch``. ``homes`` names the clients that ``WindowList.home`` counts: those of the partition, also when pooled.
    """

    name: ClassVar[str] = "series"

    ids: list[str]
    keys: Tensor
    edges: Tensor
    length: int
    patch: int
    values: Tensor
    windows: dict[str, WindowList]
    homes: tuple[str, ...]

    @classmethod
    def read(cls, data: Path, partition: Path, protocol: Protocol, device: torch.device) -> SeriesTask:
        """The task of the series and partition artifacts (folders), on ``device``."""
        made = read_partition(SeriesPartition, partition)
        tables = made.clients, made.scaling, made.windows
        return series_task(read_series(data), made.about, *tables, protocol, device)

    @property
    def device(self) -> torch.device:
        """Where the data lie."""
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the data."""
        return self.values.dtype

    @property
    def tokens(self) -> int:
        """Tokens of a window."""
        return self.length // self.patch

    def sizes(self, part: str) -> Tensor:
        """Windows of each client in ``part``, [C] (int64, CPU)."""
        return self.windows[part].count.cpu()

    def numbers(self, part: str, rows: Tensor, samples_CB: Tensor) -> tuple[Tensor, Tensor]:
        """Places [c, B] in the part's list of windows, and whether each exists."""
        listed = self.windows[part]
        exists = samples_CB < listed.count[rows][:, None]
        at = listed.offset[rows][:, None] + samples_CB
        return at.where(exists, torch.full_like(at, len(listed.first) - 1)), exists

    def window_keys(self, part: str, rows: Tensor, samples_CB: Tensor) -> Tensor:
        """Keys [c, B] (int64) of windows, by client, series and start alone, for masks that every method shares."""
        return self.windows[part].key[self.numbers(part, rows, samples_CB)[0]]

    def batch(self, part: str, rows: Tensor, samples_CB: Tensor) -> SeriesWindows:
        """Windows number ``samples_CB`` [c, B] of clients ``rows`` [c]; numbers beyond a client's size are padding."""
        listed = self.windows[part]
        at, exists = self.numbers(part, rows, samples_CB)
        place = listed.first[at][..., None] + torch.arange(self.length, device=self.device)
        value = self.values[place.clamp(0, len(self.values) - 1)]
        seen = (place >= listed.low[at][..., None]) & (place < len(self.values)) & ~value.isnan()
        seen_CBL = seen.to(self.dtype)
        draws = uniform(listed.key[at].reshape(-1), (self.tokens,), self.dtype).reshape(*at.shape, self.tokens)
        return SeriesWindows(
            x=torch.where(seen, value, torch.zeros_like(value)),
            seen=seen_CBL,
            hidden=hide(draws, seen_CBL, HIDDEN_SHARE),
            valid=exists.to(self.dtype),
        )

    def chunks(self, part: str, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All windows of a part: (clients [c] that still have some, numbers [c, B]), about ``chunk`` tokens a time."""
        count = self.windows[part].count
        begin = 0
        while (rows := (count > begin).nonzero()[:, 0]).numel():
            width = max(1, chunk // (len(rows) * self.tokens))
            # No further than the shortest of these needs: what follows goes to fewer clients.
            width = min(width, int(count[rows].min()) - begin)
            yield rows, torch.arange(begin, begin + width, device=self.device).expand(len(rows), -1)
            begin += width

    def validate(self, predict: Predict, chunk: int) -> Validation:
        """Squared error of the hidden points in units of what is visible of a window; mean over clients."""
        squared = torch.zeros(len(self.homes), dtype=torch.float64, device=self.device)
        n = torch.zeros_like(squared)
        for rows, samples, batch, rebuilt in answered(self, "validation", predict, chunk):
            hidden = points(batch.hidden, self.length) * batch.seen
            _, sd = visible_scale(batch.x, batch.seen - hidden)
            error = ((rebuilt - batch.x) / sd).square() * hidden
            home = self.windows["validation"].home[self.numbers("validation", rows, samples)[0]].reshape(-1)
            squared.index_add_(0, home, error.to(torch.float64).sum(-1).reshape(-1))
            n.index_add_(0, home, hidden.to(torch.float64).sum(-1).reshape(-1))
        judged = n > 0
        mse = squared / n
        score = float(mse[judged].mean()) if judged.any() else float("nan")
        pooled = len(self.ids) != len(self.homes)
        return Validation(score, {"validation_mse": score if pooled else mse})

    def pooled(self) -> SeriesTask:
        """The same data as one client "all".

        Its training windows are everyone's, about as many as there are, client i with a share proportional to
        sqrt(n_i): whole copies of its windows first, then those whose hash is lowest.
        """
        windows = {part: _together(listed) for part, listed in self.windows.items()}
        windows["train"] = _together(self.windows["train"], _by_root(self.windows["train"]).to(self.device))
        return replace(self, ids=["all"], keys=client_keys(["all"], self.device), windows=windows)


def _together(listed: WindowList, chosen: Tensor | None = None) -> WindowList:
    """The windows ``chosen`` (all) as those of one client."""
    total = len(listed.first) - 1
    at = torch.arange(total, device=listed.first.device) if chosen is None else chosen
    at = torch.cat([at, at.new_tensor([total])])
    first, low, key, home = (column[at] for column in (listed.first, listed.low, listed.key, listed.home))
    return WindowList(first, low, key, home, offset=at.new_zeros(1), count=at.new_tensor([len(at) - 1]))


def _by_root(listed: WindowList) -> Tensor:
    """Places of windows (CPU) such that each client has a share proportional to the root of its count."""
    count, offset = listed.count.cpu().numpy(), listed.offset.cpu().numpy()
    root = np.sqrt(count)
    quota = np.floor(count.sum() * root / max(root.sum(), 1.0)).astype(np.int64)
    keys = derive(listed.key, "pooled").cpu().numpy()
    chosen = []
    for begin, n, wanted in zip(offset, count, quota, strict=True):
        if n:
            own = np.arange(begin, begin + n)
            order = own[np.argsort(keys[own], kind="stable")]
            chosen += [own] * (wanted // n) + [np.sort(order[: wanted % n])]
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *chosen]))


def series_task(
    data: SeriesSet,
    partition: dict[str, Any],
    clients: pd.DataFrame,
    scaling: pd.DataFrame,
    windows: pd.DataFrame,
    protocol: Protocol,
    device: torch.device,
) -> SeriesTask:
    """Put series and their partition on ``device``; validation windows thinned by the protocol.

    ``clients`` has one row a client (index: its name), ``scaling`` one row a series (``mean``, ``sd`` of its training
    part, ``validation`` and ``test``: first points of these parts), ``windows`` one row a window (``client``: row of
    ``clients``, ``part``, ``series``: row of ``data``, ``start``: point of the series, negative where padded). Gaps of
    at most a patch are filled along a line, inside each part; longer ones stay missing.

    Raises InputError where the partition belongs to other series.
    """
    length, patch = int(partition["length"]), int(partition["patch"])
    if len(scaling) != len(data.table):
        expected = f"the {len(scaling)} series of the partition"
        raise InputError(f"partition of {partition['dataset']}: expected {expected}, found {len(data.table)}")
    ids = [str(client) for client in clients.index]
    begin = np.concatenate([[0], np.cumsum(lengths(data.table))])
    columns = (data.table["values"], *(scaling[name] for name in ("mean", "sd", "validation", "test")))
    scaled = np.concatenate(
        [
            (fill_gaps(values, (validation, test), patch).astype(np.float64) - mean) / sd
            for values, mean, sd, validation, test in zip(*columns, strict=True)
        ]
    )
    keys = np.array([name_key(name) for name in series_names(data.table)])
    low = {"train": 0, "validation": scaling["validation"].to_numpy(), "test": scaling["test"].to_numpy()}
    listed = {}
    for part in PARTS:
        chosen = windows[windows["part"] == part].sort_values("client", kind="stable")
        series, start = chosen["series"].to_numpy(np.int64), np.array(chosen["start"], np.int64)
        key = derive(torch.from_numpy(start), "window").numpy() ^ keys[series]
        home = chosen["client"].to_numpy(np.int64)
        if part == "validation":
            kept = thinned(key, home, protocol.validation_stride)
            series, start, key, home = series[kept], start[kept], key[kept], home[kept]
        bounds = begin[series] + np.broadcast_to(low[part], len(data.table))[series]
        listed[part] = _window_list(begin[series] + start, bounds, key, home, len(ids), len(scaled), device)
    return SeriesTask(
        ids=ids,
        keys=client_keys(ids, device),
        edges=torch.empty((2, 0), dtype=torch.int64, device=device),
        length=length,
        patch=patch,
        values=on_device(scaled, getattr(torch, protocol.precision), device),
        windows=listed,
        homes=tuple(ids),
    )


def _window_list(
    first: NDArray[np.int64],
    low: NDArray[np.int64],
    key: NDArray[np.int64],
    home: NDArray[np.int64],
    clients: int,
    total: int,
    device: torch.device,
) -> WindowList:
    count = np.bincount(home, minlength=clients)

    def put(column: NDArray[np.int64], *padding: int) -> Tensor:
        return torch.from_numpy(np.append(column, padding).astype(np.int64)).to(device)

    offset = np.cumsum(count) - count
    return WindowList(put(first, 0), put(low, total + 1), put(key, 0), put(home, 0), put(offset), put(count))
