"""Every file of a generated world loads, generates and deals, and the three concentrations do what they are for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedloom.config.dataset import TrajectoryDataset, read_dataset
from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.table import TrajectorySet
from fedloom.partition.folder import TrajectoryPartition
from fedloom.partition.trajectories import make_trajectory_partition

WORLDS = [
    "dkt-synth",
    "dkt-synth-small",
    "dkt-synth-alpha1",
    "dkt-synth-alpha01",
    "dkt-synth-sites",
    "dkt-synth-hidden",
]
FEW = 800
made = cache(generate)


def world(repository: Path, name: str) -> TrajectoryDataset:
    dataset = read_dataset(repository / "config" / "datasets" / f"{name}.yaml")
    assert isinstance(dataset, TrajectoryDataset)
    return dataset


def few(dataset: TrajectoryDataset) -> TrajectorySet:
    """The world's first learners, the beginnings of their sequences."""
    generated = dataset.trajectories.generate
    assert isinstance(generated, DktSynth)
    return made(replace(generated, sequences=FEW, length=8))


def dealt(repository: Path, name: str) -> TrajectoryPartition:
    dataset = world(repository, name)
    return make_trajectory_partition(few(dataset), dataset.partition)


def test_no_world_is_forgotten(repository: Path) -> None:
    assert sorted(path.stem for path in (repository / "config" / "datasets").glob("dkt-*.yaml")) == sorted(WORLDS)


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_is_dealt_to_ten_clients_each_sequence_once(repository: Path, name: str) -> None:
    partition = dealt(repository, name)
    assert partition.assignment["id"].tolist() == list(range(FEW))
    assert len(partition.clients) == 10
    assert partition.clients.to_numpy().sum() == FEW
    assert partition.clients["train"].min() > 0


def test_the_worlds_of_the_three_concentrations_hold_the_same_learners(repository: Path) -> None:
    worlds = [world(repository, name) for name in ("dkt-synth", "dkt-synth-alpha1", "dkt-synth-alpha01")]
    assert len({each.trajectories.generate for each in worlds}) == 1
    assert [each.partition.alpha for each in worlds] == [10.0, 1.0, 0.1]
    assert len({replace(each.partition, alpha=1.0) for each in worlds}) == 1


def test_the_smaller_the_concentration_the_more_unlike_are_the_clients_outcomes(repository: Path) -> None:
    spread = []
    for name in ("dkt-synth", "dkt-synth-alpha1", "dkt-synth-alpha01"):
        mean = np.array([y.mean() for y in few(world(repository, name)).table["y"]])
        client = dealt(repository, name).assignment["client"].to_numpy()
        spread.append(np.std([mean[client == number].mean() for number in range(10)]))
    assert spread[0] < spread[1] < spread[2]
