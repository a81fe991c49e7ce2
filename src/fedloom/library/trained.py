"""What a run trained, ready to be asked about new data; one class a family of tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.forecast.stream import forecasts
from fedloom.evaluation.series.model import common_answer, why_no_common_model
from fedloom.federation.method import Moment
from fedloom.federation.protocol import Protocol
from fedloom.federation.runs import Run
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import forecast_task
from fedloom.federation.tasks.series import SeriesWindows
from fedloom.federation.worlds import World
from fedloom.library.panels import named
from fedloom.library.recent import known_covariates, recent_values
from fedloom.partition.folder import PanelPartition, read_partition

SELECTION = "selected"  # the weights of the round that was best on the validation part
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Trained:
    """A finished run with its weights: ``spec`` says what was trained and how, ``clients`` on whose data.

    A subclass names its ``family`` of tasks and the ``folder`` in which a pipeline keeps the data of one.
    """

    family: ClassVar[str]
    folder: ClassVar[str]

    def __init__(self, run: Run, data: Path, partition: Path) -> None:
        self.run, self.data, self.partition = run, data, partition
        self.weights = run.weights(SELECTION)

    @property
    def spec(self) -> dict[str, Any]:
        """The run's settings, every default written out."""
        return self.run.spec

    @property
    def clients(self) -> list[str]:
        """Names of the clients, in the order of the weights."""
        return list(self.run.task.ids)


class Forecaster(Trained):
    """Forecasts what follows given readings."""

    family = "forecast"
    folder = "panel"

    def forecast(self, readings: Panel | pd.DataFrame, covariates: pd.DataFrame | None = None) -> pd.DataFrame:
        """The next steps of every sensor [H, C] in the unit of the panel, indexed by their stamps.

        ``readings`` is a panel, or a table with the panel's sensors as columns and local stamps as its index, of at
        least as many steps as the model reads of history. Missing readings and absent steps are filled in as they were
        in training. Sensors with covariates of their own find them in ``covariates`` (stamps as index, columns
        ``name/{sensor}``), or in the panel given, and stand at their training mean where there are none.

        Raises InputError for anything else, a missing sensor, stamps off the panel's interval, too few steps, or no
        reading at all among those that the model reads.
        """
        panel, made = read_panel(self.data), read_partition(PanelPartition, self.partition)
        history, horizon = int(made.about["history"]), int(made.about["horizon"])
        recent = recent_values(readings, self.clients, panel, history)
        step = pd.Timedelta(minutes=int(made.about["interval_minutes"]))
        ahead = pd.date_range(recent.index[-1] + step, periods=horizon, freq=step, name="timestamp")
        later = recent.index.append(ahead)
        values = pd.concat([panel.values[self.clients], recent.reindex(later)])
        covariates = known_covariates(readings, covariates).reindex(index=later, columns=panel.features.columns)
        followed = dataclasses.replace(panel, values=values, features=pd.concat([panel.features, covariates]))
        window = {"client": [-1], "part": ["test"], "start": [len(values) - horizon - history]}
        task = forecast_task(
            followed, made.about, made.clients.loc[self.clients], pd.DataFrame(window),
            Protocol(**self.spec["protocol"]), self.run.task.device,
        )  # fmt: skip
        (found,) = forecasts(self.run, self.weights, task, "test")
        return pd.DataFrame(found.forecast_CBH[:, 0].T.cpu().numpy(), index=ahead, columns=self.clients)


class WorldModel(Trained):
    """Answers what would follow if other actions were taken."""

    family = "trajectory"
    folder = "trajectories"

    def simulate(self, plan: Sequence[int], *, first: int = 0, part: str = "test", draws: int = 20) -> pd.Series:
        """Mean probability of the outcome under do(T = ``plan``) from step ``first`` on, by sequence id.

        ``plan`` are action ids, one a step; sequences of the ``part`` that are shorter are left out. Every number is a
        mean over the steps of the plan and over ``draws`` simulations.

        Raises InputError for an action or a part that the data do not have, a step or a number of draws out of range,
        or a plan longer than every sequence.
        """
        task, table = self.run.task, read_trajectories(self.data).table
        _require_plan(plan, task.actions)
        if part not in task.rows:
            raise InputError(f"part: expected one of {', '.join(task.rows)}, found {part!r}")
        for name, number, least in (("first", first, 0), ("draws", draws, 1)):
            if number < least:
                raise InputError(f"{name}: expected at least {least}, found {number}")
        long_enough = (task.arrays.mask.sum(1) >= first + len(plan)).nonzero()[:, 0]
        if not torch.isin(task.rows[part], long_enough).any():
            steps = first + len(plan)
            raise InputError(f"plan: expected a {part} sequence of at least {steps} steps, found none so long")
        world = World(self.run.method, self.run.skeleton, self.weights, task)
        plans = torch.tensor([list(plan)], device=task.device)
        chance, at = world.simulate(part, plans, first, draws, long_enough)
        ids = table["id"].to_numpy()[at.cpu().numpy()]
        return pd.Series(chance[:, 0].double().mean(0).cpu().numpy(), index=pd.Index(ids, name="id"), name="outcome")


def _require_plan(plan: object, actions: int) -> None:
    expected = f"plan: expected actions from 0 to {actions - 1}"
    if isinstance(plan, str) or not isinstance(plan, Sequence | np.ndarray):
        raise InputError(f"{expected}, found a {named(plan)}")
    wrong = [action for action in plan if not isinstance(action, int | np.integer) or not 0 <= action < actions]
    if wrong or not len(plan):
        raise InputError(f"{expected}, found {wrong[0] if wrong else 'no action'}")


class Rebuilder(Trained):
    """Fills in what is missing of a series."""

    family = "series"
    folder = "series"

    def reconstruct(self, series: NDArray[np.floating[Any]], client: str | None = None) -> Floats:
        """The series [S] with every NaN filled in, in its own unit; observed points stay as they are.

        Windows follow each other, the last one ends with the series. ``client`` names whose model answers, where
        clients keep models of their own.

        Raises InputError where a name is needed or unknown, where nothing at all was observed, or for anything but
        numbers along one axis.
        """
        try:
            values = np.asarray(series, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"series: expected numbers along one axis, found a {named(series)}") from None
        seen = np.isfinite(values)
        if values.ndim != 1 or not seen.any():
            raise InputError(f"series: expected one axis with an observed point, found shape {values.shape}")
        mean, sd = values[seen].mean(), values[seen].std() or 1.0
        task = self.run.task
        windows = -(-len(values) // task.length)
        pad = max(0, task.length - len(values))
        starts = [min(i * task.length, len(values) + pad - task.length) for i in range(windows)]
        scaled = np.pad(np.where(seen, (values - mean) / sd, 0.0), (pad, 0))
        known, real = np.pad(seen, (pad, 0)), np.pad(np.ones_like(seen), (pad, 0))
        cut = [slice(start, start + task.length) for start in starts]
        x_BL, seen_BL, real_BL = (np.stack([whole[each] for each in cut]) for whole in (scaled, known, real))
        found = self._fill(x_BL, seen_BL, real_BL, client)
        for each, rebuilt in zip(cut, found, strict=True):
            scaled[each] = np.where(known[each], scaled[each], rebuilt)
        return np.where(seen, values, scaled[pad:] * sd + mean)

    def _fill(self, x_BL: Floats, seen_BL: Bools, real_BL: Bools, client: str | None) -> Floats:
        """Windows with missing points filled in; a token of the series that lost all its points is hidden."""
        task = self.run.task
        put = {"device": task.device, "dtype": task.values.dtype}
        lost, padding = (~points.reshape(len(points), -1, task.patch).any(-1) for points in (seen_BL, real_BL))
        lost &= ~padding
        seen = seen_BL | np.repeat(lost, task.patch, axis=1) & real_BL
        batch = SeriesWindows(
            x=torch.tensor(x_BL, **put),
            seen=torch.tensor(seen, **put),
            hidden=torch.tensor(lost, device=task.device),
            valid=torch.ones(len(x_BL), **put),
        )
        if client is None:
            reason = why_no_common_model(self.run)
            if reason is not None:
                raise InputError(f"client: expected a name, since {reason}; found none")
            return common_answer(self.run, self.weights)(batch).double().cpu().numpy()
        if client not in self.clients:
            raise InputError(f"client: expected one of {', '.join(self.clients)}, found {client!r}")
        row = self.clients.index(client)
        model = Bound(self.run.skeleton, {name: values[row] for name, values in self.weights.items()})
        with torch.no_grad():
            return self.run.method.predict(model, batch, Moment({}, {})).double().cpu().numpy()
