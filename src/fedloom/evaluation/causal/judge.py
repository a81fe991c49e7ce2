"""What a run on trajectories is judged by: its parts, the log's owners and propensities, the truth if known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from fedloom.data.trajectories.table import Padded, TrajectorySet
from fedloom.data.trajectories.truth import Truth
from fedloom.evaluation.causal.anchors import estimated_log, groups, history_of, log_of
from fedloom.evaluation.causal.effects import Naive, naive, step_effect_rows, window_rows
from fedloom.evaluation.causal.factual import factual_rows
from fedloom.evaluation.causal.propensity import History, estimate_propensities
from fedloom.evaluation.causal.rollouts import window_values
from fedloom.evaluation.causal.utility import Sequences, reference_rows, utility_rows
from fedloom.evaluation.causal.yardsticks import Yardsticks
from fedloom.evaluation.offpolicy.log import Log, window
from fedloom.evaluation.offpolicy.policies import POLICIES, plan
from fedloom.evaluation.offpolicy.rows import log_rows, overlap_rows, sequence_rows, step_rows
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.federation.worlds import World

Floats = NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """The sequences of one part of a task: positions [n] in its arrays, the client [n] of each, their arrays."""

    at: NDArray[np.int64]
    client: NDArray[np.int64]
    arrays: Trajectories

    @classmethod
    def of(cls, task: TrajectoryTask, part: str) -> Part:
        """The part, client by client."""
        members = task.rows[part].cpu()
        client = torch.arange(len(members))[:, None].expand_as(members)[members >= 0]
        at = members[members >= 0]
        return cls(at.numpy(), client.numpy(), Trajectories(*(a.cpu()[at] for a in task.arrays)))

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which steps exist, [n, L]."""
        return (self.arrays.mask > 0).numpy()

    @property
    def outcome(self) -> Floats:
        """Outcomes, [n, L]."""
        return self.arrays.y.double().numpy()

    def sequences(self, task: TrajectoryTask, arrays: Trajectories | None = None) -> Sequences:
        """These sequences, or others in their place, as the downstream predictor takes them."""
        given = self.arrays if arrays is None else Trajectories(*(values.cpu() for values in arrays))
        codes = [one_hot(given.x_code[:, i], n) for i, n in enumerate(task.x_categories)]
        x = torch.cat([given.x, *(code.to(given.x.dtype) for code in codes)], 1).float()
        client = torch.from_numpy(self.client)
        return Sequences(x, given.a.float(), given.t, given.y.float(), given.mask > 0, client)


@dataclass(frozen=True)
class Judge:
    """What all of a run's weights are judged by: its parts, the log's owners and propensities, the truth if known."""

    task: TrajectoryTask
    data: TrajectorySet
    truth: Truth | None
    train: Part
    validation: Part
    test: Part

    @classmethod
    def of(cls, task: TrajectoryTask, data: TrajectorySet, truth: Truth | None) -> Judge:
        """The judge of runs on a task."""
        return cls(task, data, truth, *(Part.of(task, part) for part in ("train", "validation", "test")))

    @property
    def clients(self) -> list[str]:
        """Names of the clients."""
        return self.task.ids

    @property
    def anchors(self) -> dict[str, int]:
        """Ids of the two actions that policies choose between."""
        return dict(zip(("off", "on"), self.task.anchors, strict=True))

    def owners(self, part: Part) -> NDArray[np.int64]:
        """A number for the owner of each sequence of a part."""
        return pd.factorize(self.data.table["owner"])[0].astype(np.int64)[part.at]

    def history(self, part: Part) -> History:
        """What propensities are estimated from."""
        arrays = part.arrays
        x, unknown = part.sequences(self.task).x_NX.numpy(), np.full(part.valid.shape, np.nan)
        padded = Padded(x, arrays.a.numpy(), arrays.t.numpy(), arrays.y.numpy(), unknown, part.valid)
        return history_of(padded, part.client, self.owners(part), self.anchors)

    def logged_propensity(self, part: Part) -> Floats | None:
        """Logged propensities [n, L] of a part, 1 beyond a sequence's end; None where the log has none."""
        padded = np.ones(part.valid.shape)
        rows = self.data.table["propensity"].to_numpy()[part.at]
        for known, values in zip(padded, rows, strict=True):
            known[: len(values)] = values
        return None if np.isnan(padded).any() else padded

    def unadjusted(self) -> Naive:
        """What the training log says without adjustment."""
        return naive(groups(self.train.arrays.t.numpy(), self.anchors), self.train.outcome, self.train.valid)

    def yardsticks(self, seed: int) -> Yardsticks:
        """What no run changes: estimated propensities, and what predictors of ``seed`` learn from real sequences."""
        train, validation, test = (self.history(part) for part in (self.train, self.validation, self.test))
        estimated = np.nan_to_num(estimate_propensities(train, validation, test, len(self.clients)), nan=1.0)
        real, asked = self.train.sequences(self.task), self.test.sequences(self.task)
        return Yardsticks(reference_rows(real, asked, self.task.actions, self.clients, seed), estimated)

    def potentials(self, world: World, actions: Sequence[int]) -> Floats:
        """Outcome probabilities [n, L, A + 1] at the test part's histories under ``actions`` and, last, as logged."""
        found, at = world.potentials("test", torch.tensor(actions, device=self.task.device))
        order = pd.Index(at.cpu().numpy()).get_indexer(pd.Index(self.test.at))
        return np.asarray(found.double().cpu().numpy()[order])

    # -- rows ----------------------------------------------------------------------------------------------------

    def model_rows(self, probability: Floats) -> list[Row]:
        """Factual fit and, where the truth is known, effects of single steps.

        ``probability`` are the ``potentials`` of the anchors, here and below.
        """
        valid, outcome = self.test.valid, self.test.outcome
        client = np.repeat(self.test.client[:, None], valid.shape[1], 1)
        base_rate = float(self.train.outcome[self.train.valid].mean())
        rows = factual_rows(probability[..., 2][valid], outcome[valid], client[valid], self.clients, base_rate)
        if self.truth is not None:
            rows += step_effect_rows(probability[..., :2], self._true_potentials(), valid, self.unadjusted())
        return rows

    def policy_rows(self, world: World, probability: Floats, estimated: Floats) -> list[Row]:
        """Off-policy values of the four policies, from logged and from ``estimated`` propensities [n, L, 3]."""
        test = self.history(self.test)
        logs = {"estimated": estimated_log(test, estimated)}
        logged = self.logged_propensity(self.test)
        if logged is not None:
            logs["logged"] = log_of(test, logged)
        rows: list[Row] = []
        first = 0 if self.truth is None else self.truth.about["window_start"] - 1
        believed = window_values(world, logs["estimated"], self.test.at, self.task.anchors, first)
        for name, log in logs.items():
            rows += step_rows(
                log, self.clients, name, probability[..., :2], probability[..., 2], truth=self._true_steps(log)
            )
            rows += sequence_rows(log, self.clients, name, believed, first, truth=self._true_windows())
            if name == "estimated":
                rows += overlap_rows(estimated[..., :2], log, name)
                rows += log_rows(log, self.clients, truth=self._true_steps(log))
        return rows

    def use_rows(self, world: World, seed: int) -> list[Row]:
        """What a predictor learns from synthetic sequences."""
        made, _ = world.generate("train")
        synthetic = self.train.sequences(self.task, made)
        asked = self.test.sequences(self.task)
        return utility_rows("synthetic", synthetic, asked, self.task.actions, self.clients, seed)

    def window_rows(self, world: World, draws: int | None = None, most: int | None = None) -> list[Row]:
        """Effects of whole windows and values of the four policies, by simulation; none where the truth is unknown.

        With as many draws as the truth's floor has and for all units that it values, or with ``draws`` and for ``most``
        units, the same ones for every run.
        """
        if self.truth is None:
            return []
        first = int(self.truth.about["window_start"]) - 1
        width = self.task.longest - first
        plans = np.concatenate([plan(policy, np.array([width]), width) for policy in POLICIES])
        actions = np.array(self.task.anchors)[plans]
        row_of = self._truth_row()
        units = self.test.at[self.truth.valued[row_of[self.test.at]]]
        units = units[np.argsort(self.task.units.cpu().numpy()[units], kind="stable")[:most]]
        floors = self.truth.floor[:draws]
        device, draws = self.task.device, len(floors)
        asked = torch.from_numpy(actions).to(device), first, draws, torch.from_numpy(units).to(device)
        simulated, at = world.simulate("test", *asked)
        place = row_of[at.cpu().numpy()]
        true, floor = self.truth.values[:, place], floors[:, :, place].astype(np.float64)
        return window_rows(simulated.double().cpu().numpy(), true, self.unadjusted(), width, floor)

    def _true_potentials(self) -> Floats:
        assert self.truth is not None
        return self.truth.potentials[self._truth_row()[self.test.at]].astype(np.float64)

    def _true_steps(self, log: Log) -> dict[Any, float] | None:
        """The exact value of deviating for one step, by policy."""
        if self.truth is None:
            return None
        part = window(log)
        potentials = part.cut(self._true_potentials(), 0)
        values = {}
        for policy in POLICIES:
            chosen = plan(policy, part.width_S, part.inside_SW.shape[1])
            taken = np.take_along_axis(potentials, chosen[..., None], axis=2)[..., 0]
            values[policy] = float(taken[part.inside_SW].mean())
        return values

    def _true_windows(self) -> dict[int | None, dict[Any, float]] | None:
        """Values of windows of the lengths that the truth holds, and of the whole one."""
        if self.truth is None:
            return None
        means = np.nanmean(self.truth.horizon_values, axis=2)
        known = dict(zip(self.truth.about["horizons"], means, strict=True))
        known[None] = np.nanmean(self.truth.values, axis=1)
        return {horizon: dict(zip(POLICIES, values.tolist(), strict=True)) for horizon, values in known.items()}

    def _truth_row(self) -> NDArray[np.int64]:
        """Row of the truth for each position in the task's arrays."""
        assert self.truth is not None
        return pd.Index(self.truth.id).get_indexer(pd.Index(self.data.table["id"])).astype(np.int64)
