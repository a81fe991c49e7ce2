"""Forecasting: every client (a sensor) predicts its next H readings from its last T."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import client_keys, derive
from fedloom.federation.samples import answered, located, on_device, side_by_side, stretches, thinned
from fedloom.federation.scores import ErrorSums
from fedloom.federation.task import Predict, Validation
from fedloom.partition.folder import PanelPartition, read_partition

DAYS_PER_WEEK = 7


class Windows(NamedTuple):
    """A minibatch of one client's windows (with a leading client axis outside the loss).

    ``x`` [B, T] scaled readings, missing ones filled · ``clock`` [B, 2] time-of-day slot and weekday of the last input
    step · ``last`` [B] last observed scaled reading · ``y`` [B, H] scaled targets, 0 where missing · ``mask`` [B, H]
    1 where the target was observed and is asked for · ``valid`` [B] 0 for padding · ``own`` [B, T, F] covariates that
    the client alone sees, scaled, 0 where missing or where others have more.
    """

    x: Tensor
    clock: Tensor
    last: Tensor
    y: Tensor
    mask: Tensor
    valid: Tensor
    own: Tensor

    def clock_at(self, ahead_K: Tensor, slots_per_day: int) -> tuple[Tensor, Tensor]:
        """Time-of-day slot and weekday, [..., B, K] each, of the steps so far ahead of the last input step.

        Negative is back. The clock runs on from there, so beyond a change of the clock it is an hour off.
        """
        now_B = self.clock[..., 1] * slots_per_day + self.clock[..., 0]
        then_BK = (now_B[..., None] + ahead_K) % (DAYS_PER_WEEK * slots_per_day)
        return then_BK % slots_per_day, then_BK // slots_per_day


@dataclass(frozen=True)
class ForecastTask:
    """A panel and its partition on one device; windows are gathered by index, never materialised.

    Arrays are [C, S] over S steps: ``inputs`` scaled and filled, ``targets`` scaled (0 where missing), ``observed``,
    ``last`` (last observed scaled reading up to a step, 0 before the first), ``raw`` (NaN where missing). ``starts``
    gives each part's window starts as [C, n] padded with -1, ``counts`` how many each client has.

    ``edges`` [2, E] run from source to receiver, with ``weights`` [E] as the panel has them.
    ``places`` [C, 2] are latitude and longitude in degrees, NaN where unknown. ``own`` [C, S, F] are covariates of each
    client's own, of which it has ``owned`` [C]. ``wanted`` [C, H] says which steps ahead a client forecasts: none, if
    it is passive (it gives inputs and has no targets).
    """

    name: ClassVar[str] = "forecast"

    ids: list[str]
    keys: Tensor
    edges: Tensor
    weights: Tensor
    history: int
    horizon: int
    slots_per_day: int
    mean: Tensor
    sd: Tensor
    inputs: Tensor
    targets: Tensor
    observed: Tensor
    last: Tensor
    raw: Tensor
    clock: Tensor
    starts: dict[str, Tensor]
    counts: dict[str, Tensor]
    places: Tensor
    own: Tensor
    owned: Tensor
    wanted: Tensor

    @classmethod
    def read(cls, data: Path, partition: Path, protocol: Protocol, device: torch.device) -> ForecastTask:
        """The task of the panel and partition artifacts (folders), on ``device``."""
        made = read_partition(PanelPartition, partition)
        return forecast_task(read_panel(data), made.about, made.clients, made.windows, protocol, device)

    @property
    def device(self) -> torch.device:
        """Where the data lie."""
        return self.inputs.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the data."""
        return self.inputs.dtype

    def sizes(self, part: str) -> Tensor:
        """Windows of each client in ``part``, [C] (int64, CPU)."""
        return self.counts[part]

    def batch(self, part: str, rows: Tensor, samples_CB: Tensor) -> Windows:
        """Windows number ``samples_CB`` [c, B] of clients ``rows`` [c]; numbers beyond a client's size are padding."""
        first, exists = located(self.starts[part], self.counts[part], rows, samples_CB)
        client, ahead = rows[:, None], first + self.history
        valid = exists.to(self.dtype)
        return Windows(
            x=self.inputs.unfold(1, self.history, 1)[client, first],
            clock=self.clock[ahead - 1],
            last=self.last[client, ahead - 1],
            y=self.targets.unfold(1, self.horizon, 1)[client, ahead],
            mask=self._scored(rows, ahead).to(self.dtype) * valid[:, :, None],
            valid=valid,
            own=self._covariates(client, first),
        )

    def _covariates(self, client: Tensor, first: Tensor) -> Tensor:
        """Each window's own covariates, [c, B, T, F]."""
        if not self.own.shape[-1]:
            return self.own.new_empty((*first.shape, self.history, 0))
        return self.own.unfold(1, self.history, 1)[client, first].mT.contiguous()

    def _scored(self, rows: Tensor, ahead: Tensor) -> Tensor:
        """Whether targets [c, B, H] from step ``ahead`` on were observed and their client forecasts that far."""
        return self.observed.unfold(1, self.horizon, 1)[rows[:, None], ahead] & self.wanted[rows][:, None]

    def truth(self, part: str, rows: Tensor, samples_CB: Tensor) -> tuple[Tensor, Tensor]:
        """Raw targets [c, B, H] (NaN where missing) and whether each counts; never scaled and back."""
        ahead = self.starts[part][rows[:, None], samples_CB] + self.history
        return self.raw.unfold(1, self.horizon, 1)[rows[:, None], ahead], self._scored(rows, ahead)

    def unscale(self, forecast_CBH: Tensor, rows: Tensor) -> Tensor:
        """Forecasts of clients ``rows`` in the unit of the raw readings."""
        return forecast_CBH * self.sd[rows][:, None, None] + self.mean[rows][:, None, None]

    def only(self, rows: Tensor) -> ForecastTask:
        """The task of clients ``rows`` [c] alone, with the edges among them; each is as it was among all."""
        place = torch.full((len(self.ids),), -1, device=self.device)
        place[rows] = torch.arange(len(rows), device=self.device)
        among = (place[self.edges] >= 0).all(0)
        of_clients = ("keys", "mean", "sd", "inputs", "targets", "observed", "last", "raw", "places", "own", "wanted")
        return replace(
            self,
            ids=[self.ids[row] for row in rows.tolist()],
            edges=place[self.edges[:, among]],
            weights=self.weights[among],
            starts={part: starts[rows] for part, starts in self.starts.items()},
            counts={part: counts[rows.cpu()] for part, counts in self.counts.items()},
            owned=self.owned[rows.cpu()],
            **{name: getattr(self, name)[rows] for name in of_clients},
        )

    def chunks(self, part: str, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All windows of a part in order: (clients [c], window numbers [c, B]), beyond a short client's size too."""
        return stretches(self.counts[part], chunk // max(1, len(self.ids)), self.device)

    def validate(self, predict: Predict, chunk: int) -> Validation:
        """Masked MAE in raw units (pooled; also per client) and masked squared error in scaled units."""
        sums = ErrorSums(len(self.ids), self.horizon, self.device)
        squared = torch.zeros(len(self.ids), dtype=torch.float64, device=self.device)
        for rows, numbers, batch, forecast in answered(self, "validation", predict, chunk):
            truth, observed = self.truth("validation", rows, numbers)
            sums.add(self.unscale(forecast, rows), truth, observed & (batch.valid > 0)[:, :, None])
            squared += ((forecast - batch.y).square() * batch.mask).to(torch.float64).sum((1, 2))
        loss = squared / sums.n.sum(1)
        return Validation(sums.mae(), {"validation_mae": sums.client_mae(), "validation_loss": loss})


def _listed(windows: pd.DataFrame, part: str, clients: int, one_in: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Window starts of a part as [C, n] padded with -1, one in ``one_in`` of each client's, and their counts [C].

    Where some belong to client -1, these are everyone's.
    """
    chosen = windows[windows["part"] == part].sort_values(["client", "start"])
    common = bool((chosen["client"] < 0).any())
    if common:
        chosen = chosen[chosen["client"] < 0]
    start, owner = np.array(chosen["start"], np.int64), np.array(chosen["client"], np.int64).clip(min=0)
    kept = thinned(derive(torch.from_numpy(start), "window").numpy(), owner, one_in)
    if common:
        return np.tile(start[kept], (clients, 1)), np.full(clients, len(kept))
    return side_by_side(start[kept], owner[kept], clients)


def _last_observed(scaled: np.ndarray) -> np.ndarray:
    """Last non-NaN value up to each step [C, S]; 0 (the mean) before a client's first reading."""
    return np.nan_to_num(pd.DataFrame(scaled.T).ffill().to_numpy().T, nan=0.0)


def _wanted(panel: Panel, ids: list[str], horizon: int, dataset: str) -> np.ndarray:
    """Which steps ahead each client forecasts, [C, H]: up to its own horizon where it has one; none if passive.

    Raises InputError for a horizon beyond the partition's.
    """
    nodes = panel.nodes.loc[ids]
    own = nodes["horizon"].astype("Float64") if "horizon" in nodes else pd.Series(pd.NA, nodes.index, dtype="Float64")
    steps = own.fillna(horizon).to_numpy(dtype=np.int64)
    for client, found in zip(ids, steps, strict=True):
        if not 1 <= found <= horizon:
            raise InputError(f"panel of {dataset}: horizon of {client}: expected 1 to {horizon} steps, found {found}")
    roles = nodes["role"] if "role" in nodes else pd.Series("active", nodes.index)
    wanted: np.ndarray = np.arange(horizon) < steps[:, None]
    return wanted & (roles == "active").to_numpy()[:, None]


def _own(panel: Panel, ids: list[str], train: slice) -> tuple[np.ndarray, np.ndarray]:
    """Covariates of each client's own [C, S, F], scaled by its training rows, and how many each has [C].

    A column ``name/{client}`` of the panel's features belongs to that client alone.
    """
    columns = [[c for c in panel.features.columns if c.partition("/")[2] == i] for i in ids]
    owned = np.array([len(mine) for mine in columns], dtype=np.int64)
    own = np.zeros((len(ids), len(panel.values), owned.max(initial=0)))
    for row, mine in enumerate(columns):
        if not mine:
            continue
        table = panel.features[mine].astype(np.float64)
        mean, sd = table.iloc[train].mean().fillna(0.0), table.iloc[train].std(ddof=0).fillna(0.0)
        own[row, :, : len(mine)] = ((table - mean) / sd.where(sd > 0, 1.0)).fillna(0.0)
    return own, owned


def forecast_task(
    panel: Panel,
    partition: dict,
    clients: pd.DataFrame,
    windows: pd.DataFrame,
    protocol: Protocol,
    device: torch.device,
) -> ForecastTask:
    """Put a panel and its partition on ``device``; validation windows thinned by the protocol.

    Raises InputError where the partition names a client that the panel has not, or a client's horizon is longer than
    the partition's.
    """
    unknown = [c for c in clients.index if c not in panel.values.columns]
    if unknown:
        raise InputError(
            f"partition of {partition['dataset']}: clients: expected nodes of the panel, found {unknown[0]!r}"
        )
    ids = [str(c) for c in clients.index]
    raw = panel.values[ids].to_numpy(dtype=np.float64).T
    mean = clients["mean"].to_numpy(dtype=np.float64)[:, None]
    sd = clients["std"].to_numpy(dtype=np.float64)[:, None]
    scaled = (raw - mean) / sd
    observed = ~np.isnan(raw)
    last = _last_observed(scaled)
    if partition["fill"] == "last":
        inputs = np.where(observed, scaled, last)
    elif partition["fill"] == "raw":
        literal = partition["missing_literal"]
        if literal is None:
            raise InputError(
                f"partition of {partition['dataset']}: fill: expected mean or last, found raw (no literal)"
            )
        inputs = np.where(observed, scaled, (literal - mean) / sd)
    else:
        inputs = np.where(observed, scaled, 0.0)
    stamps = pd.DatetimeIndex(panel.values.index)
    minutes = stamps.hour * 60 + stamps.minute
    clock = np.stack([minutes // partition["interval_minutes"], stamps.day_of_week], axis=1).astype(np.int64)
    starts, counts = {}, {}
    for part, one_in in {"train": 1, "validation": protocol.validation_stride, "test": 1}.items():
        listed, count = _listed(windows, part, len(ids), one_in)
        starts[part], counts[part] = torch.from_numpy(listed).to(device), torch.from_numpy(count)
    place = {node: i for i, node in enumerate(ids)}
    edges = panel.edges[panel.edges["src"].isin(place) & panel.edges["dst"].isin(place)]
    pairs = np.array([edges["src"].map(place), edges["dst"].map(place)], dtype=np.int64).reshape(2, -1)
    horizon = int(partition["horizon"])
    own, owned = _own(panel, ids, slice(*partition["split"]["train"]))
    put = partial(on_device, dtype=getattr(torch, protocol.precision), device=device)
    return ForecastTask(
        ids=ids,
        keys=client_keys(ids, device),
        edges=torch.from_numpy(pairs).to(device),
        weights=put(edges["weight"].to_numpy(dtype=np.float64)),
        history=int(partition["history"]),
        horizon=horizon,
        slots_per_day=24 * 60 // int(partition["interval_minutes"]),
        mean=put(mean[:, 0]),
        sd=put(sd[:, 0]),
        inputs=put(inputs),
        targets=put(np.nan_to_num(scaled, nan=0.0)),
        observed=torch.from_numpy(np.ascontiguousarray(observed)).to(device),
        last=put(last),
        raw=put(raw),
        clock=torch.from_numpy(clock).to(device),
        starts=starts,
        counts=counts,
        places=torch.tensor(panel.nodes.loc[ids, ["lat", "lon"]].to_numpy(dtype=np.float64), device=device),
        own=put(own),
        owned=torch.from_numpy(owned),
        wanted=torch.from_numpy(_wanted(panel, ids, horizon, partition["dataset"])).to(device),
    )
