"""One world for all tests of the generator: large enough for averages, small enough for a second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import threadpoolctl

from fedloom.data.trajectories.dkt.counterfactual import Prefix, potentials
from fedloom.data.trajectories.dkt.log import generate, logged
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.world import World
from fedloom.data.trajectories.table import Padded, TrajectorySet, pad

# The oracle's matrix products are too small for two threads, which would wait for each other on a shared machine.
threadpoolctl.threadpool_limits(limits=1, user_api="blas")


@dataclass(frozen=True)
class Case:
    """A world, the log that it left, and the log as arrays."""

    settings: DktSynth
    world: World
    data: TrajectorySet
    units: np.ndarray
    log: Prefix
    padded: Padded

    def anchor_potentials(self) -> np.ndarray:
        """p under off and on at each logged step, [N, L, 2]."""
        items = np.array([self.world.off, self.world.on])
        return potentials(self.world, self.units, self.log, items).astype(np.float64)

    def naive_contrast(self) -> float:
        """Mean outcome where on was given less mean outcome where off was."""
        y, t = self.padded.y, self.padded.t
        return float(y[t == self.world.on].mean() - y[t == self.world.off].mean())


def make(settings: DktSynth) -> Case:
    """Generate the log of ``settings``."""
    data = generate(settings)
    return Case(settings, World(settings), data, *logged(data), pad(data))


@pytest.fixture(scope="session")
def small() -> Case:
    """A few hundred students of the default world."""
    return make(DktSynth(sequences=300))


@pytest.fixture(scope="session")
def confounded() -> Case:
    """The default world, confounding 2."""
    return make(DktSynth(sequences=4000))


@pytest.fixture(scope="session")
def unconfounded() -> Case:
    """The same students where the choice between the anchors ignores their success."""
    return make(DktSynth(sequences=4000, confounding=0))
