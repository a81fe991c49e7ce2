"""Judges runs on trajectories: factual fit, effects and values against the truth, off-policy values, utility."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.causal.collapse import collapse_rows
from fedloom.evaluation.causal.effects import ALWAYS, NEVER, STEP, WINDOW, naive, step_effect_rows, window_rows
from fedloom.evaluation.causal.factual import factual_rows
from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.causal.propensity import of_chosen
from fedloom.evaluation.causal.rollouts import window_values
from fedloom.evaluation.causal.sampler import read_sampler, sampler_rows
from fedloom.evaluation.causal.truth import KnownTruth
from fedloom.evaluation.causal.uncertainty import Owned, attached, effect_draws, value_draws
from fedloom.evaluation.causal.utility import utility_rows
from fedloom.evaluation.causal.yardsticks import read_yardsticks
from fedloom.evaluation.evaluate import Arrays, Judge
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.offpolicy.policies import OFF, ON, POLICIES, plan
from fedloom.evaluation.offpolicy.rows import log_rows, overlap_rows, sequence_rows, step_rows
from fedloom.evaluation.rows import Row, condition, narrowed, row, taken
from fedloom.federation.runs import Run
from fedloom.federation.tasks.trajectory import TrajectoryTask
from fedloom.federation.worlds import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METRICS = ("auc", "rmse", "pehe_mse", "pehe_root", "ate_error", "value", "value_error", "tstr_auc", "tstr_rmse")
SNAPSHOT_UNITS, SNAPSHOT_DRAWS = 200, 4  # the course of learning at a twentieth of what the final numbers cost


class TrajectoryJudge(Judge):
    """Asks the run's world for its answers to do(T) and sets them against log, truth and yardsticks."""

    name = "trajectory"

    def __init__(self, run: Run, folders: Folders) -> None:
        super().__init__(run, folders)
        if folders.yardsticks is None:
            raise InputError(f"{folders.data}: yardsticks: expected their folder, found none")
        self.task: TrajectoryTask = run.task
        data = read_trajectories(folders.data)
        self.parts = {part: Part.of(self.task, data, part) for part in ("train", "validation", "test")}
        self.train, self.test = self.parts["train"], self.parts["test"]
        self.truth = None if folders.truth is None else KnownTruth.read(folders.truth, data, self.test)
        self.yardsticks = read_yardsticks(folders.yardsticks)
        self.unadjusted = naive(self.train.chosen, self.train.outcome, self.train.valid)
        self.sampler = None
        if "sampler" in folders.beside:
            self.sampler = read_sampler(folders.beside["sampler"], folders.beside_partition("sampler"), data)

    def judge(self, selection: str) -> tuple[list[Row], Arrays]:
        """Return the rows of a selection: what costs simulations or bootstraps is told of the selected weights alone.

        Beside the last weights stand those of the rounds that were kept on the way to them.
        """
        world = self._world(selection)
        probability = self.test.potentials(world, self.task.anchors)
        rows = self._fit(probability) + self._step_effects(probability)
        if selection == "last":
            taken(rows)
            return rows + self._snapshots(), {}
        rows += self._windows(world) + self._values(world, probability) + self._utility(world) + self.yardsticks.rows
        rows.append(row("reads_history", float(world.answers.reads_history), len(self.test.at)))
        if self.sampler is not None:
            rows += sampler_rows(self.sampler, world, self.parts)
        return rows, taken(rows)

    def missing(self, selection: str, reason: str) -> list[Row]:
        """Return a null row of every metric."""
        return [row(metric, np.nan, 0, reason=reason) for metric in METRICS]

    def _world(self, selection: str) -> World:
        return World(self.run.method, self.run.skeleton, self.run.weights(selection), self.task)

    def _fit(self, probability: Floats) -> list[Row]:
        """Factual fit; ``probability`` are the potentials of the anchors, here and below."""
        valid, train = self.test.valid, self.train
        client = np.repeat(self.test.client[:, None], valid.shape[1], 1)
        base_rate = float(train.outcome[train.valid].mean())
        foretold, outcome = probability[..., 2][valid], self.test.outcome[valid]
        return factual_rows(foretold, outcome, client[valid], self.task.ids, base_rate)

    def _step_effects(self, probability: Floats) -> list[Row]:
        """Effects of single steps, where the truth is known."""
        if self.truth is None:
            return []
        valid, potentials = self.test.valid, self.truth.potentials
        rows = step_effect_rows(probability[..., :2], potentials, valid, self.unadjusted)
        effect, true = (each[..., ON][valid] - each[..., OFF][valid] for each in (probability, potentials))
        owned = Owned(np.repeat(self.test.client[:, None], valid.shape[1], 1)[valid], len(self.task.ids))
        under = condition(scope=STEP)
        return attached(rows, {(name, under): drawn for name, drawn in effect_draws(effect, true, owned).items()})

    def _windows(self, world: World, most_draws: int | None = None, most_units: int | None = None) -> list[Row]:
        """Effects of whole windows and values of the four policies, by simulation; none where the truth is unknown.

        With as many draws as the truth's floor has and for all units that it values, where no less is asked for.
        """
        if self.truth is None:
            return []
        first, draws = self.truth.first, min(most_draws or self.truth.draws, self.truth.draws)
        width = self.task.longest - first
        plans = np.concatenate([plan(policy, np.array([width]), width) for policy in POLICIES])
        actions, units = np.array(self.task.anchors)[plans], self.truth.units(most_units)
        actions_PW, units_U = (torch.from_numpy(each).to(self.task.device) for each in (actions, units))
        simulated, at = world.simulate("test", actions_PW, first, draws, units_U)
        places = at.cpu().numpy()
        true_PU, oracle_MPU = self.truth.at(places, draws)
        simulated_MPU = simulated.double().cpu().numpy()
        rows = window_rows(simulated_MPU, true_PU, self.unadjusted, width, oracle_MPU)
        return rows if most_units else attached(rows, self._window_draws(simulated_MPU.mean(0), true_PU, places))

    def _window_draws(self, value_PU: Floats, true_PU: Floats, at_U: Ints) -> dict[tuple[str, str], Floats]:
        """Draws, over clients, of the errors of windows and of policies' values, by metric and condition."""
        place_U = pd.Index(self.test.at).get_indexer(pd.Index(at_U))
        owned = Owned(self.test.client[place_U], len(self.task.ids))
        effect, true = (each[ALWAYS] - each[NEVER] for each in (value_PU, true_PU))
        effects = effect_draws(effect, true, owned)
        found = {(metric, condition(scope=WINDOW)): drawn for metric, drawn in effects.items()}
        values = value_draws(value_PU, true_PU, owned)
        return found | {(metric, condition(scope=WINDOW, policy=p)): drawn for (metric, p), drawn in values.items()}

    def _values(self, world: World, probability: Floats) -> list[Row]:
        """Off-policy values of the four policies, from estimated and, where there are any, logged propensities."""
        estimated = self.yardsticks.propensity_NLG
        logs = {"estimated": self.test.log(of_chosen(estimated, self.test.chosen))}
        if self.test.propensity is not None:
            logs["logged"] = self.test.log(self.test.propensity)
        first, true_steps, true_windows = 0, None, None
        if self.truth is not None:
            first, true_steps, true_windows = self.truth.first, self.truth.steps(), self.truth.windows()
        believed = window_values(world, logs["estimated"], self.test.at, first)
        clients, rows = self.task.ids, []
        for name, log in logs.items():
            rows += step_rows(log, clients, name, probability[..., :2], probability[..., 2], true_steps)
            rows += sequence_rows(log, clients, name, believed, first, true_windows)
        rows += overlap_rows(estimated[..., :2], logs["estimated"], "estimated")
        return rows + log_rows(logs["estimated"], clients, true_steps)

    def _utility(self, world: World) -> list[Row]:
        """What a predictor learns from synthetic sequences, and whether these differ from each other at all."""
        real, asked = self.train.sequences(), self.test.sequences()
        made, source = self.train.generated(world), world.answers.source
        rows = utility_rows(source, made, asked, self.task.actions, self.task.ids, self.run.spec["seed"])
        return rows + collapse_rows(made, real)

    def _snapshots(self) -> list[Row]:
        """Effects and values of windows by the weights of each round that was kept, with its number (from 0)."""
        rows, method = [], self.run.method
        rounds = method.rounds(self.run.spec["protocol"]["rounds"])
        for kept in self.run.snapshots:
            early = None if method.selectable(kept, rounds) else "no"
            for each in self._windows(self._world(f"round{kept}"), SNAPSHOT_DRAWS, SNAPSHOT_UNITS):
                rows.append(each | {"condition": narrowed(each["condition"], round=kept, selectable=early)})
        return rows
