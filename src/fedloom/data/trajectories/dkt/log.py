"""The log that the world leaves, as trajectories."""

from __future__ import annotations

import numpy as np

from fedloom.data.trajectories.dkt.counterfactual import BATCH, Prefix, rollout
from fedloom.data.trajectories.dkt.noise import Array, Ints, uniform
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.world import World
from fedloom.data.trajectories.sequences import Sequences
from fedloom.data.trajectories.table import Steps, TrajectorySet, pad


def generate(settings: DktSynth, dataset: str = "dkt-synth", batch: int = BATCH) -> TrajectorySet:
    """Return the logged trajectories; the same settings give the same log to the last bit, whatever the batch.

    The id of a sequence is the number of its student, its label the student's site.
    """
    world = World(settings)
    units = np.arange(settings.sequences)
    students = world.students(units)
    luck = uniform(settings.seed, "action", units, settings.length)

    def logging(step: int, rows: Ints, context: Array) -> Ints:
        return world.choose(students.take(rows), context, luck[rows, step])

    log = rollout(world, units, logging, batch=batch)
    propensity = np.stack(
        [world.propensity(students, log.a[:, step], log.t[:, step]) for step in range(settings.length)], axis=1
    )
    steps = Steps(
        start=np.arange(settings.sequences + 1) * settings.length,
        x=students.x.astype(np.float32),
        a=log.a.reshape(-1, 1).astype(np.float32),
        t=log.t.ravel().astype(np.int32),
        y=log.y.ravel().astype(np.float32),
        propensity=propensity.ravel(),
    )
    about = {
        "actions": world.oracle.items,
        "other_action": None,
        "x_names": [f"covariate {k + 1}" for k in range(students.x.shape[1])],
        "a_names": ["success so far"],
        "a_kinds": ["continuous"],
        "exclusions": {},
        "anchors": {"off": world.off, "on": world.on},
    }
    names = np.array([f"s{unit:07d}" for unit in units])
    sites = np.array([f"site{site:02d}" for site in students.site])
    return Sequences(names, steps, about, sites).named(dataset, None, "answered right")


def logged(data: TrajectorySet) -> tuple[Ints, Prefix]:
    """Return ids [N] and whole histories of generated trajectories."""
    steps = pad(data)
    return data.table["id"].to_numpy(), Prefix(steps.t, steps.y.astype(np.int64))
