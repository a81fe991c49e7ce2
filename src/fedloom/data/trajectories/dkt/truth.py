"""The truth artifact of the generated world, computed for a log that it left."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedloom.data.trajectories.dkt.counterfactual import POLICIES, Prefix, plan, potentials, rollout, window_values
from fedloom.data.trajectories.dkt.log import logged
from fedloom.data.trajectories.dkt.noise import Array, Ints
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.world import World, mean_so_far
from fedloom.data.trajectories.owners import name_hash, owner_parts
from fedloom.data.trajectories.table import TrajectorySet
from fedloom.data.trajectories.truth import Truth, TruthSettings
from fedloom.errors import InputError


def build_truth(settings: DktSynth, truth: TruthSettings, data: TrajectorySet) -> Truth:
    """Return the truth about ``data``, the log of the world of ``settings``.

    Step potentials and outcomes are of all sequences, values of at most ``truth.units`` of the test part, in an order
    of their names. Raises InputError for a log of another world, or a window that the log does not have.
    """
    world = World(settings)
    units, log = logged(data)
    length = log.t.shape[1]
    begun, steps = truth.window_start - 1, length - truth.window_start + 1
    least = max((1, *truth.horizons))
    if steps < least:
        raise InputError(
            f"truth: window_start: expected at least {least} steps from it to the end, found {steps} in {length}"
        )
    _same_world(world, units, log, data)
    prefix = Prefix(log.t[:, :begun], log.y[:, :begun])
    outcomes = np.repeat(log.y[None], len(POLICIES), axis=0).astype(np.uint8)
    for row, policy in enumerate(POLICIES):
        outcomes[row, :, begun:] = rollout(world, units, plan(world, policy, steps), prefix=prefix).y
    valued = _valued(data, truth.units)
    chosen = units[valued], Prefix(prefix.t[valued], prefix.y[valued])
    sample = window_values(world, *chosen, steps, truth.draws)
    floor = window_values(world, *chosen, steps, truth.floor_draws, stream="floor").transpose(2, 0, 1)
    short = [window_values(world, *chosen, horizon, truth.draws).mean(axis=2) for horizon in truth.horizons]
    error = sample.std(axis=2, ddof=1) / np.sqrt(truth.draws)
    effect = (sample[1] - sample[0]).std(axis=1, ddof=1) / np.sqrt(truth.draws)

    def of_all(values: Array) -> Array:
        whole = np.full((*values.shape[:-1], len(units)), np.nan)
        whole[..., valued] = values
        return whole

    return Truth(
        id=units,
        potentials=potentials(world, units, log, np.array([world.off, world.on])),
        anchor_propensity=_anchor_propensity(world, units, log),
        values=of_all(sample.mean(axis=2)),
        values_se=of_all(error),
        effect_se=of_all(effect),
        floor=of_all(floor).astype(np.float32),
        horizon_values=of_all(np.array(short).reshape(-1, len(POLICIES), len(valued))),
        outcomes=outcomes,
        about={
            "dataset": data.about["dataset"],
            "anchors": {"off": world.off, "on": world.on},
            "policies": list(POLICIES),
            "window_start": truth.window_start,
            "horizons": list(truth.horizons),
            "draws": truth.draws,
            "floor_draws": truth.floor_draws,
            "valued_units": len(valued),
            "monte_carlo_se": [float(se) for se in np.sqrt((error**2).sum(axis=1)) / len(valued)],
            "settings": dataclasses.asdict(settings),
        },
    )


def _valued(data: TrajectorySet, count: int) -> Ints:
    """Return the rows, sorted, of at most ``count`` test sequences: the first ones by a hash of their owners' names."""
    owners = data.table["owner"].to_numpy(dtype=str)
    (test,) = np.nonzero(owner_parts(owners) == "test")
    order = np.argsort(name_hash(owners[test], "value"), kind="stable")
    return np.sort(test[order[:count]])


def _anchor_propensity(world: World, units: Ints, log: Prefix) -> Array:
    students = world.students(units)
    right = np.cumsum(log.y, axis=1) - log.y
    result = np.empty((*log.t.shape, 2))
    for step in range(log.t.shape[1]):
        context = mean_so_far(right[:, step], step)
        for column, item in enumerate((world.off, world.on)):
            result[:, step, column] = world.propensity(students, context, np.full(len(units), item))
    return result


def _same_world(world: World, units: Ints, log: Prefix, data: TrajectorySet) -> None:
    """Raise InputError unless the logged answers are those of this world to the logged items."""
    few = np.arange(min(len(units), 64))
    again = rollout(world, units[few], log.t[few])
    wrong = np.flatnonzero((again.y != log.y[few]).any(axis=1))
    if len(wrong):
        dataset, unit = data.about["dataset"], units[few[wrong[0]]]
        raise InputError(f"{dataset}: sequence {unit}: expected the answers of the settings' world, found others")
