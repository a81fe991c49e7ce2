"""The truth artifact of the generated world, computed for a log that it left."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

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
    valued = _valued(data, truth.units)
    values = _values(world, units, prefix, valued, steps, truth)
    error = np.ascontiguousarray(values["values_se"][:, valued])
    return Truth(
        id=units,
        potentials=potentials(world, units, log, np.array([world.off, world.on])),
        anchor_propensity=_anchor_propensity(world, units, log),
        outcomes=_outcomes(world, units, log, prefix, steps),
        floor=values.pop("floor").astype(np.float32),
        **values,
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


def _values(
    world: World, units: Ints, prefix: Prefix, valued: Ints, steps: int, truth: TruthSettings
) -> dict[str, Array]:
    """Return those fields of ``Truth`` that only the rows ``valued`` have; NaN for all other units."""
    chosen = units[valued], Prefix(prefix.t[valued], prefix.y[valued])
    sample = window_values(world, *chosen, steps, truth.draws)
    floor = window_values(world, *chosen, steps, truth.floor_draws, stream="floor")
    short = [window_values(world, *chosen, horizon, truth.draws).mean(axis=2) for horizon in truth.horizons]
    root = np.sqrt(truth.draws)
    found = {
        "values": sample.mean(axis=2),
        "values_se": sample.std(axis=2, ddof=1) / root,
        "effect_se": (sample[1] - sample[0]).std(axis=1, ddof=1) / root,
        "floor": floor.transpose(2, 0, 1),
        "horizon_values": np.array(short).reshape(-1, len(POLICIES), len(valued)),
    }
    whole = {name: np.full((*some.shape[:-1], len(units)), np.nan) for name, some in found.items()}
    for name, some in found.items():
        whole[name][..., valued] = some
    return whole


def _outcomes(world: World, units: Ints, log: Prefix, prefix: Prefix, steps: int) -> NDArray[np.uint8]:
    """Return the answers [P, N, L] that every policy leads to after ``prefix``, with each unit's own noise."""
    outcomes = np.repeat(log.y[None], len(POLICIES), axis=0).astype(np.uint8)
    for row, policy in enumerate(POLICIES):
        outcomes[row, :, -steps:] = rollout(world, units, plan(world, policy, steps), prefix=prefix).y
    return outcomes


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
