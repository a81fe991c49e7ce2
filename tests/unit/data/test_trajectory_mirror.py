"""The real datasets: whole, at the published counts, and fit to be partitioned."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedloom.config.dataset import TrajectoryDataset, read_dataset
from fedloom.data.download import fetch
from fedloom.data.trajectories.build import build_trajectories
from fedloom.data.trajectories.summary import describe
from fedloom.data.trajectories.table import TrajectorySet, flat_steps, read_trajectories, write_trajectories
from fedloom.partition.trajectories import make_trajectory_partition

pytestmark = pytest.mark.mirror
CONFIG = Path(__file__).parents[3] / "config" / "datasets"


def load(name: str, folder: Path) -> tuple[TrajectoryDataset, TrajectorySet]:
    dataset = read_dataset(CONFIG / f"{name}.yaml")
    assert isinstance(dataset, TrajectoryDataset)
    for key, file in dataset.files.items():
        fetch(file, f"{name}/{key}", folder / key, folder / "lock.json", Path(os.environ["FEDLOOM_MIRROR"]))
    return dataset, build_trajectories(dataset.trajectories, folder)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("diabetes130", {"sequences": 71_523, "owners": 71_515, "steps": 101_763, "longest": 20, "dx": 11, "da": 74}),
        ("statics2011", {"sequences": 1_121, "owners": 333, "longest": 200, "dx": 6, "da": 1, "actions": 5}),
        ("statics2011-items", {"sequences": 1_121, "actions": 1_223, "actions_used": 1_223}),
        ("openbandit-random", {"steps": 10_000, "owners": 240, "longest": 50, "dx": 4, "da": 18, "actions": 80}),
        ("openbandit-bts", {"steps": 10_000, "owners": 253, "longest": 50, "dx": 4, "da": 18, "actions": 80}),
    ],
)
def test_every_dataset_has_its_published_counts_and_can_be_dealt(
    name: str, expected: dict[str, int], tmp_path: Path
) -> None:
    dataset, data = load(name, tmp_path / "raw")
    write_trajectories(data, tmp_path / "out")
    found = describe(read_trajectories(tmp_path / "out"))
    assert {key: found[key] for key in expected} == expected
    made = make_trajectory_partition(data, dataset.partition)
    assert len(made.assignment) == found["sequences"]
    assert (made.clients["train"] > 0).all()


def test_diabetes_leaves_out_three_rows_and_has_the_measured_anchors(tmp_path: Path) -> None:
    dataset, data = load("diabetes130", tmp_path)
    assert data.about["exclusions"] == {"rows_of_unknown_gender": 3}
    assert data.about["actions_before_grouping"] == 146
    assert describe(data)["mean_outcome"] == pytest.approx(0.1116, abs=5e-5)
    anchors = make_trajectory_partition(data, dataset.partition).about["anchors"]
    names = data.about["action_names"]
    assert [names[anchors[role]] for role in ("off", "on")] == ["No/No/No/No", "Steady/No/No/No"]
    steps = flat_steps(data)
    shares = [float((steps.t == anchors[role]).mean()) for role in ("off", "on")]
    assert shares == pytest.approx([0.281, 0.196], abs=0.004)


def test_statics_chunks_before_short_ones_are_left_out_are_1127(tmp_path: Path) -> None:
    _, data = load("statics2011-items", tmp_path)
    assert len(data.table) + data.about["exclusions"]["chunks_below_5_steps"] == 1_127
    assert describe(data)["commonest_share"] == pytest.approx(0.0016, abs=1e-4)
    assert describe(data)["mean_outcome"] == pytest.approx(0.7654, abs=1e-4)


@pytest.mark.parametrize(("name", "clicks"), [("openbandit-random", 38), ("openbandit-bts", 42)])
def test_open_bandit_has_its_clicks_and_propensities(name: str, clicks: int, tmp_path: Path) -> None:
    _, data = load(name, tmp_path)
    steps = flat_steps(data)
    assert steps.y.sum() == clicks
    if name == "openbandit-random":
        np.testing.assert_allclose(steps.propensity, 1 / 80)
    else:
        assert steps.propensity.min() == pytest.approx(4.5e-5, rel=0.2)
        assert steps.propensity.mean() == pytest.approx(0.109, abs=5e-4)
