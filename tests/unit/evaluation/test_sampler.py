"""A second log's policy, from the first log by every estimator, against what it earned: on Open Bandit as in a toy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table, write_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.causal.sampler import ACTIONS_AT_ONCE, Sampler, places, read_sampler, sampler_rows
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.trajectory import TrajectoryTask
from fedloom.federation.worlds import World
from fedloom.methods.fed_causaldiff import FedCausalDiff
from fedloom.partition.folder import write_partition
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition

ACTIONS, PLACES, SEQUENCES, LENGTH = 20, 2, 1500, 8
CHANCE = np.linspace(0.05, 0.6, ACTIONS)
POLICY = np.stack([np.arange(1, ACTIONS + 1), np.arange(ACTIONS, 0, -1)]) / np.arange(ACTIONS + 1).sum()
UNIFORM = np.full((PLACES, ACTIONS), 1 / ACTIONS)


def log(name: str, policy: np.ndarray, seed: int) -> TrajectorySet:
    """Sequences of items that ``policy`` [places, actions] shows at one of two places; items differ in clicks."""
    random = np.random.default_rng(seed)
    steps = SEQUENCES * LENGTH
    place = random.integers(0, PLACES, steps)
    item = (random.random(steps)[:, None] > policy[place].cumsum(1)).sum(1).clip(max=ACTIONS - 1)
    context = np.column_stack([place == 0, place == 1, random.normal(size=steps)]).astype(np.float32)
    click = (random.random(steps) < CHANCE[item]).astype(np.float32)
    flat = Steps(
        np.arange(0, steps + 1, LENGTH), np.zeros((SEQUENCES, 1), np.float32), context, item.astype(np.int32), click,
        policy[place, item],
    )  # fmt: skip
    about = {
        "dataset": name, "part": "made", "unit": "clicked", "actions": ACTIONS, "other_action": None, "dx": 1, "da": 3,
        "longest": LENGTH, "x_names": ["x"], "a_names": ["position_1", "position_2", "noise"],
        "a_kinds": ["binary", "binary", "continuous"], "rows": SEQUENCES, "owners": SEQUENCES, "exclusions": {},
    }  # fmt: skip
    return TrajectorySet(trajectory_table(np.arange(SEQUENCES), [f"u{i}" for i in range(SEQUENCES)], flat), about)


def store(data: TrajectorySet, folder: Path) -> TrajectorySet:
    """Write a log and its partition below ``folder``."""
    write_trajectories(data, folder / "trajectories")
    write_partition(make_trajectory_partition(data, TrajectoryPartitionSettings(clients=3)), folder / "partition")
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of a uniform policy and of a sampler, each below its name."""
    root = tmp_path_factory.mktemp("logs")
    store(log("uniform", UNIFORM, 0), root / "uniform")
    store(log("sampler", POLICY, 1), root / "sampler")
    return root


@pytest.fixture(scope="module")
def parts(folder: Path) -> dict[str, Part]:
    """The parts of the uniform log."""
    task = TrajectoryTask.read(folder / "uniform" / "trajectories", folder / "uniform" / "partition", Protocol(), CPU)
    return {part: Part.of(task, log("uniform", UNIFORM, 0), part) for part in ("train", "validation", "test")}


@pytest.fixture(scope="module")
def world(parts: dict[str, Part]) -> World:
    """Untrained weights: estimates that correct a model must bear a bad one."""
    task = parts["test"].task
    federation = Federation(FedCausalDiff(), task, Protocol(rounds=1), 0)
    return World(federation.method, federation.skeleton, federation.weights(federation.start()), task)


CPU = torch.device("cpu")


def sampler(folder: Path) -> Sampler:
    """The sampler as evaluation reads it."""
    return read_sampler(
        folder / "sampler" / "trajectories", folder / "sampler" / "partition", log("uniform", UNIFORM, 0)
    )


def test_a_sampler_is_its_shares_by_place_in_training_rows_and_the_mean_of_all_its_outcomes(folder: Path) -> None:
    found, own = sampler(folder), log("sampler", POLICY, 1)
    assert found.share_PA.sum(axis=1) == pytest.approx([1, 1])
    assert found.share_PA == pytest.approx(POLICY, abs=0.02)
    assert found.earned["value"] == pytest.approx(np.concatenate(own.table["y"]).mean(), abs=1e-6)
    assert found.earned["n"] == SEQUENCES * LENGTH
    assert found.earned["lo"] < (POLICY.mean(axis=0) * CHANCE).sum() < found.earned["hi"]
    part = pd.read_parquet(folder / "sampler" / "partition" / "assignment.parquet").set_index("id")["part"]
    changed = own.table.copy()
    kept = (part.loc[own.table["id"]] == "train").to_numpy()
    changed["t"] = [t if train else np.zeros_like(t) for t, train in zip(own.table["t"], kept, strict=True)]
    other = folder / "other"
    write_trajectories(TrajectorySet(changed, own.about), other)
    again = read_sampler(other, folder / "sampler" / "partition", own)
    assert np.array_equal(again.share_PA, found.share_PA)


def test_every_estimator_finds_what_the_sampler_earned_but_the_model_alone(
    folder: Path, parts: dict[str, Part], world: World
) -> None:
    other = sampler(folder)
    rows = sampler_rows(other, world, parts)
    frame = METRICS.validate(
        as_metrics(rows, {"dataset": "uniform", "method": "m", "variant": "base", "seed": 0}, "selected")
    )
    values = frame[frame["metric"] == "value"].set_index("condition")
    earned = other.earned["value"]
    for part, estimators in {"test": ("dm", "ips", "snips", "dr", "sndr"), "all": ("ips", "snips")}.items():
        for name in estimators:
            row = values.loc[f"estimator={name},policy=sampler,propensity=logged,rows={part},scope=step"]
            assert (row["lo"] < earned < row["hi"]) == (name != "dm")
    assert len(values) == 1 + 5 + 2
    errors = frame[frame["metric"] == "value_error"].set_index("condition")["value"]
    assert errors.filter(like="rows=all").max() < 0.02


def test_a_models_answers_are_weighed_by_the_samplers_shares_at_the_place_of_each_step(
    folder: Path, parts: dict[str, Part], world: World
) -> None:
    assert ACTIONS > ACTIONS_AT_ONCE
    rows, test = sampler_rows(sampler(folder), world, parts), parts["test"]
    dm = next(row for row in rows if "estimator=dm" in row["condition"] and row["metric"] == "value")
    answers = test.potentials(world, range(ACTIONS))[..., :-1]
    place = places(test.arrays.a.numpy(), [0, 1])
    shares = sampler(folder).share_PA
    total = sum(float(shares[place[i, t]] @ answers[i, t]) for i, t in zip(*np.nonzero(test.valid), strict=True))
    assert dm["value"] == pytest.approx(total / test.valid.sum(), rel=1e-6)


def test_a_sampler_of_other_actions_and_a_log_without_propensities_are_refused(folder: Path) -> None:
    data = log("uniform", UNIFORM, 0)
    fewer = TrajectorySet(data.table, data.about | {"actions": ACTIONS + 1})
    with pytest.raises(InputError, match="actions: expected those of uniform, found 20"):
        read_sampler(folder / "sampler" / "trajectories", folder / "sampler" / "partition", fewer)
    unknown = data.table.assign(propensity=[np.full(LENGTH, np.nan)] * SEQUENCES)
    with pytest.raises(InputError, match="propensity: expected one of every step, found unknown ones"):
        read_sampler(
            folder / "sampler" / "trajectories", folder / "sampler" / "partition", TrajectorySet(unknown, data.about)
        )
