"""The partition of trajectories: every sequence once, owners whole, and nothing learnt from test rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.split import PARTS
from fedloom.data.trajectories.table import Steps, TrajectorySet, flat_steps, pad, scaled, trajectory_table
from fedloom.errors import InputError
from fedloom.partition.folder import TrajectoryPartition, read_partition, write_partition
from fedloom.partition.trajectories import (
    TrajectoryPartitionSettings,
    make_trajectory_partition,
)

FEW = TrajectoryPartitionSettings(clients=4, alpha=1.0)


def log(owners: int = 60, seed: int = 0, actions: int = 8, label: bool = False, **about: object) -> TrajectorySet:
    """Owners of one to three sequences of up to five steps; action 0 is the commonest, then 1."""
    draw = np.random.default_rng(seed)
    owner = np.repeat([f"owner{i:03d}" for i in range(owners)], draw.integers(1, 4, owners))
    length = draw.integers(1, 6, len(owner))
    steps = int(length.sum())
    a = draw.normal(5, 3, (steps, 2)).astype(np.float32)
    a[:, 1] = draw.integers(0, 2, steps)
    a[draw.uniform(size=steps) < 0.1, 0] = np.nan
    flat = Steps(
        start=np.r_[0, np.cumsum(length)].astype(np.int64),
        x=draw.normal(2, 4, (len(owner), 2)).astype(np.float32),
        a=a,
        t=np.minimum(draw.geometric(0.5, steps) - 1, actions - 1).astype(np.int32),
        y=draw.integers(0, 2, steps).astype(np.float32),
        propensity=np.full(steps, np.nan),
    )
    labels = [f"school{int(name[-1]) % 3}" for name in owner] if label else None
    known = {
        "dataset": "toy",
        "part": None,
        "unit": "right",
        "actions": actions,
        "other_action": None,
        "dx": 2,
        "da": 2,
        "longest": 5,
        "x_names": ["u", "v"],
        "a_names": ["p", "q"],
        "a_kinds": ["continuous", "binary"],
        "rows": len(owner),
        "owners": owners,
        "exclusions": {},
    }
    return TrajectorySet(trajectory_table(range(len(owner)), owner, flat, labels), known | about)


def same(one: TrajectoryPartition, other: TrajectoryPartition) -> bool:
    return one.about == other.about and one.assignment.equals(other.assignment) and one.clients.equals(other.clients)


@settings(max_examples=30)
@given(st.integers(30, 80), st.integers(1, 6), st.floats(0.3, 20), st.integers(0, 9))
def test_every_sequence_lands_once_and_owners_stay_whole(owners: int, clients: int, alpha: float, seed: int) -> None:
    data = log(owners, seed)
    made = make_trajectory_partition(data, TrajectoryPartitionSettings(clients, alpha, seed=seed, least_share=0))
    assert made.assignment["id"].tolist() == sorted(data.table["id"])
    owner = data.table.set_index("id")["owner"].reindex(made.assignment["id"]).to_numpy()
    assert made.assignment.groupby(owner)[["client", "part"]].nunique().eq(1).all(axis=None)
    assert list(made.clients.columns) == list(PARTS)
    assert made.clients.to_numpy().sum() == len(data.table)
    assert made.about["smallest_client"] == made.clients["train"].min() >= 1


@given(st.randoms())
@settings(max_examples=10)
def test_the_order_of_rows_changes_nothing(random: object) -> None:
    data = log()
    rows = list(range(len(data.table)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    shuffled = TrajectorySet(data.table.iloc[rows], data.about)
    assert same(make_trajectory_partition(data, FEW), make_trajectory_partition(shuffled, FEW))


@pytest.mark.parametrize("part", ["test", "validation"])
def test_values_outside_training_move_no_statistic_and_no_training_row(part: str) -> None:
    data = log()
    before = make_trajectory_partition(data, FEW)
    touched = TrajectorySet(data.table.copy(), data.about)
    outside = (before.assignment["part"] == part).to_numpy()
    for name, value in (("x", 1e6), ("a", 1e6), ("t", 3), ("y", 1)):
        pairs = zip(data.table[name], outside, strict=True)
        touched.table[name] = pd.Series([np.full_like(old, value) if here else old for old, here in pairs])
    after = make_trajectory_partition(touched, FEW)
    assert after.about == before.about
    moved = (before.assignment != after.assignment).any(axis=1)
    assert set(before.assignment["part"][moved]) <= {part}
    assert (before.assignment["part"] == after.assignment["part"]).all()


def test_another_seed_deals_otherwise_but_splits_alike() -> None:
    one, other = (make_trajectory_partition(log(), TrajectoryPartitionSettings(4, 1.0, seed=seed)) for seed in (0, 1))
    assert (one.assignment["part"] == other.assignment["part"]).all()
    assert (one.assignment["client"] != other.assignment["client"]).any()


def test_scales_are_those_of_training_rows_and_unknown_entries_become_the_mean() -> None:
    data = log()
    made = make_trajectory_partition(data, FEW)
    flat, train = flat_steps(data), (made.assignment["part"] == "train").to_numpy()
    known = flat.a[train[flat.row], 0].astype(np.float64)
    assert made.about["a_mean"] == [pytest.approx(np.nanmean(known)), 0.0]
    assert made.about["a_sd"] == [pytest.approx(np.nanstd(known)), 1.0]
    result = scaled(pad(data), made.about)
    inside = result.a[train][result.mask[train]]
    assert inside[~np.isnan(known), 0].mean() == pytest.approx(0, abs=1e-5)
    assert inside[~np.isnan(known), 0].std() == pytest.approx(1, abs=1e-5)
    assert (inside[np.isnan(known), 0] == 0).all()
    assert (result.a[~result.mask] == 0).all()
    np.testing.assert_array_equal(inside[:, 1], flat.a[train[flat.row], 1])


def test_a_constant_column_is_scaled_by_one() -> None:
    data = log()
    for x in data.table["x"]:
        x[0] = 7
    about = make_trajectory_partition(data, FEW).about
    assert (about["x_mean"][0], about["x_sd"][0]) == (7.0, 1.0)


def test_anchors_are_the_two_commonest_real_actions() -> None:
    assert make_trajectory_partition(log(), FEW).about["anchors"] == {"off": 0, "on": 1}
    assert make_trajectory_partition(log(other_action=0), FEW).about["anchors"] == {"off": 1, "on": 2}
    assert make_trajectory_partition(log(anchors={"off": 2, "on": 1}), FEW).about["anchors"] == {"off": 2, "on": 1}


def test_clients_without_an_anchor_are_told_and_too_many_are_refused() -> None:
    data = log()
    ten = TrajectoryPartitionSettings(clients=5, alpha=1.0)
    made = make_trajectory_partition(data, ten)

    def without(clients: set[int]) -> TrajectorySet:
        table = data.table.copy()
        gone = made.assignment["client"].isin(clients).to_numpy()
        table["t"] = [
            np.where((t == 1) & here, 2, t).astype(np.int32) for t, here in zip(table["t"], gone, strict=True)
        ]
        return TrajectorySet(table, data.about | {"anchors": {"off": 0, "on": 1}})

    assert make_trajectory_partition(without({3}), ten).about["clients_without"] == {"off": [], "on": [3]}
    with pytest.raises(InputError, match=r"anchor on \(action 1\): expected it in 80% .*found none of it in 2 of 5"):
        make_trajectory_partition(without({1, 3}), ten)


def test_one_action_alone_cannot_give_two_anchors() -> None:
    data = log()
    data.table["t"] = [np.zeros_like(t) for t in data.table["t"]]
    with pytest.raises(InputError, match="anchors: expected two actions that occur in 80% of the clients, found 1"):
        make_trajectory_partition(data, FEW)


def test_owners_can_be_dealt_by_their_own_label() -> None:
    data = log(90, label=True)
    made = make_trajectory_partition(data, TrajectoryPartitionSettings(3, 0.05, label="given", least_share=0, seed=3))
    table = pd.crosstab(data.table["label"].to_numpy(), made.assignment["client"].to_numpy(), normalize="index")
    assert (table.max(axis=1) > 0.6).all()
    with pytest.raises(InputError, match="label: expected a label of every owner"):
        make_trajectory_partition(log(), TrajectoryPartitionSettings(3, label="given"))


def test_too_few_owners_for_three_parts_are_refused() -> None:
    with pytest.raises(InputError, match="toy: validation part: expected an owner, found none of 4"):
        make_trajectory_partition(log(4), TrajectoryPartitionSettings(1))


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"alpha": 0.0}, {"alpha": float("nan")}, {"least_share": 1.0}])
def test_a_setting_out_of_its_range_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"partition: {next(iter(wrong))}: expected"):
        TrajectoryPartitionSettings(**wrong)  # type: ignore[arg-type]


def test_a_written_partition_reads_back_equal(tmp_path: Path) -> None:
    made = make_trajectory_partition(log(), FEW)
    write_partition(made, tmp_path)
    assert same(made, read_partition(TrajectoryPartition, tmp_path))
    pd.concat([made.assignment, made.assignment[:1]]).to_parquet(tmp_path / "assignment.parquet")
    with pytest.raises(InputError, match="id: expected each sequence once, found 0 twice"):
        read_partition(TrajectoryPartition, tmp_path)
    (tmp_path / "clients.parquet").unlink()
    with pytest.raises(InputError, match=r"clients.parquet: expected a table, found no such file"):
        read_partition(TrajectoryPartition, tmp_path)
