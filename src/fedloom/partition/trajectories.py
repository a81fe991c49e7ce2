"""The partition of trajectories: parts by owner, clients by a Dirichlet deal, scales and anchors of training rows.

An owner (student, patient, user) stays whole: all of its sequences share part and client. Parts are drawn by name
before anything is measured; each part is dealt by the same shares, labelled within itself, so that no value of a test
row moves a training row, a scale or an anchor.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.split import PARTS
from fedloom.data.trajectories.owners import name_hash, owner_parts
from fedloom.data.trajectories.table import Steps, TrajectorySet, flat_steps
from fedloom.errors import InputError
from fedloom.partition.dirichlet import deal, deciles, feasible_shares
from fedloom.partition.folder import TrajectoryPartition

ANCHOR_CLIENTS = 0.8  # an anchor occurs in the training rows of at least this share of the clients


@dataclass(frozen=True)
class TrajectoryPartitionSettings:
    """How trajectories become a federation's clients."""

    clients: int = 10
    alpha: float = 10.0  # concentration of the Dirichlet distribution; small = each client holds few labels
    label: Literal["decile", "given"] = "decile"  # deal by tenths of mean outcome, or by the data's own label
    least_share: float = 0.01  # of the mean number of training sequences that every client must get
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        if self.clients < 1:
            raise InputError(f"partition: clients: expected at least 1, found {self.clients}")
        if not self.alpha > 0:
            raise InputError(f"partition: alpha: expected a positive number, found {self.alpha}")
        if not 0 <= self.least_share < 1:
            raise InputError(f"partition: least_share: expected a share from 0 to below 1, found {self.least_share}")


def make_trajectory_partition(data: TrajectorySet, settings: TrajectoryPartitionSettings) -> TrajectoryPartition:
    """Split and deal ``data``, and measure its training rows.

    Raises InputError where a part is empty, no deal gives every client enough, or two actions cannot be anchors.
    """
    table = data.table.sort_values("id", kind="stable", ignore_index=True)
    steps = flat_steps(TrajectorySet(table, data.about))
    owners, first, owner = np.unique(table["owner"].to_numpy(np.str_), return_index=True, return_inverse=True)
    part = owner_parts(owners)
    for name in PARTS:
        if not (part == name).any():
            raise InputError(f"{data.about['dataset']}: {name} part: expected an owner, found none of {len(owners)}")
    size = np.bincount(owner)
    label = _labels(owners, part, owner, steps, table["label"].to_numpy(np.str_)[first], settings)
    train = part == "train"
    dealt, held = _in_order(owners[train], settings.seed, label[train], size[train])
    share, attempt = feasible_shares(dealt, held, settings.clients, settings.alpha, settings.least_share, settings.seed)
    client = np.empty(len(owners), dtype=np.int64)
    for name in PARTS:
        (members,) = _in_order(owners[part == name], settings.seed, np.flatnonzero(part == name))
        client[members] = deal(label[members], share)
    assignment = pd.DataFrame({"id": table["id"], "client": client[owner].astype(np.int32), "part": part[owner]})
    counts = _counts(assignment, settings.clients)
    anchors, without = _anchors(data.about, steps, assignment, settings.clients)
    about = dataclasses.asdict(settings) | {
        "family": "trajectories",
        "dataset": data.about["dataset"],
        "actions": data.about["actions"],
        "longest": data.about["longest"],
        "anchors": anchors,
        "clients_without": without,
        "deal_attempts": attempt + 1,
        "smallest_client": int(counts["train"].min()),
        **_scales(data.about, steps, (assignment["part"] == "train").to_numpy()),
    }
    return TrajectoryPartition(about, assignment, counts)


def _in_order(owners: NDArray[np.str_], seed: int, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """``arrays`` in the order in which owners are dealt: that of a keyed hash of their names."""
    order = np.argsort(name_hash(owners, f"deal/{seed}"), kind="stable")
    return [values[order] for values in arrays]


def _labels(
    owners: NDArray[np.str_],
    part: NDArray[np.str_],
    owner: NDArray[np.int64],
    steps: Steps,
    given: NDArray[np.str_],
    settings: TrajectoryPartitionSettings,
) -> NDArray[np.int64]:
    """What each owner is dealt by: the tenth of its mean outcome among the owners of its part, or its given label."""
    if settings.label == "given":
        if (given == "").any():
            raise InputError(
                f"partition: label: expected a label of every owner, found none of {owners[given == ''][0]}"
            )
        known, label = np.unique(given[part == "train"], return_inverse=True)
        # A label that no training owner has is dealt like the first one: there are no shares of its own to deal it by.
        place = np.minimum(np.searchsorted(known, given), len(known) - 1)
        return np.where(known[place] == given, place, 0)
    of_step = owner[steps.row]
    mean = np.bincount(of_step, weights=steps.y) / np.bincount(of_step)
    label = np.empty(len(owners), dtype=np.int64)
    tie = name_hash(owners, f"tie/{settings.seed}")
    for name in PARTS:
        label[part == name] = deciles(mean[part == name], tie[part == name])
    return label


def _counts(assignment: pd.DataFrame, clients: int) -> pd.DataFrame:
    counts = assignment.groupby(["client", "part"]).size().unstack(fill_value=0)
    counts = counts.reindex(index=range(clients), columns=list(PARTS), fill_value=0).astype(np.int32)
    width = max(2, len(str(clients - 1)))
    names = pd.Index([f"c{number:0{width}d}" for number in range(clients)], name="client", dtype="str")
    return counts.set_axis(names, axis=0).rename_axis(columns=None)


def _anchors(
    about: dict[str, Any], steps: Steps, assignment: pd.DataFrame, clients: int
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The two anchor actions, and for each the clients in whose training rows it never occurs.

    An action can be an anchor if it is a real id (not "other") that occurs in ``ANCHOR_CLIENTS`` of the clients; off is
    the commonest in training, on the next, the smaller id where they are equal. A generator may have fixed the two.
    """
    row = steps.row
    train = (assignment["part"] == "train").to_numpy()[row]
    seen = np.zeros((clients, about["actions"]), dtype=np.int64)
    np.add.at(seen, (assignment["client"].to_numpy()[row][train], steps.t[train]), 1)
    able = (seen > 0).mean(axis=0) >= ANCHOR_CLIENTS
    if about["other_action"] is not None:
        able[about["other_action"]] = False
    chosen: dict[str, int] | None = about.get("anchors")
    if chosen is None:
        ranked = [int(action) for action in np.argsort(-seen.sum(axis=0), kind="stable") if able[action]]
        if len(ranked) < 2:
            raise InputError(
                f"{about['dataset']}: anchors: expected two actions that occur in {ANCHOR_CLIENTS:.0%} of the clients, "
                f"found {len(ranked)}"
            )
        chosen = {"off": ranked[0], "on": ranked[1]}
    without = {}
    for name, action in chosen.items():
        missing = np.flatnonzero(seen[:, action] == 0)
        if not able[action]:
            raise InputError(
                f"{about['dataset']}: anchor {name} (action {action}): expected it in {ANCHOR_CLIENTS:.0%} of the "
                f"clients, found none of it in {len(missing)} of {clients}"
            )
        without[name] = [int(client) for client in missing]
    return chosen, without


def _scales(about: dict[str, Any], steps: Steps, train: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Mean and population deviation of every continuous column over training rows; unknown entries do not count."""
    found: dict[str, list[float]] = {}
    for name, values in (("x", steps.x[train]), ("a", steps.a[train[steps.row]])):
        kinds = about.get(f"{name}_kinds", ["continuous"] * values.shape[1])
        mean, sd = [], []
        for column, kind in zip(values.T.astype(np.float64), kinds, strict=True):
            known = column[~np.isnan(column)] if kind == "continuous" else np.empty(0)
            mean.append(float(known.mean()) if len(known) else 0.0)
            spread = float(known.std()) if len(known) else 0.0
            sd.append(spread if spread > 0 else 1.0)
        found |= {f"{name}_mean": mean, f"{name}_sd": sd}
    return found
