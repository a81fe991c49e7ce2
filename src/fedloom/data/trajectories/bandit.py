"""Open Bandit (small version): impressions of a fashion shop, with the probability of every recommendation shown.

There is no user id. Impressions with equal user features are one pseudo-user, whose impressions in time order, cut into
chunks, are the sequences.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.raw import Raw, RawFolder
from fedloom.data.stamps import on_clock, parse_stamps
from fedloom.data.tables import read_table
from fedloom.data.trajectories.owners import owner_parts
from fedloom.data.trajectories.sequences import (
    Codes,
    Cut,
    Sequences,
    cut,
    one_hot,
    refuse_rows,
    refuse_turning_back,
    without_duplicates,
)
from fedloom.data.trajectories.table import Steps
from fedloom.errors import InputError

USER = [f"user_feature_{number}" for number in range(4)]
POSITIONS = (1, 2, 3)
GROUPS = 6
A_NAMES = (
    *(f"position_{number}" for number in POSITIONS),
    *("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "log_step", "log_gap"),
    *("affinity_total", "affinity_largest", "affinity_items"),
    *(f"affinity_group_{number}" for number in range(GROUPS)),
)


def open_bandit(raw: RawFolder, *, items: int = 80, longest: int = 50) -> Sequences:
    """Read one campaign of ``items`` items under one logging policy; the outcome is a click.

    The context holds nothing of the item that is shown, which would give the action away. The affinity of a user to the
    items is summed over six blocks of item ids. A user feature is coded by the levels that training rows have.
    """
    affinity = [f"user-item_affinity_{number}" for number in range(items)]
    table, again = _impressions(raw.open("impressions"), items, affinity)
    user = table[USER].astype("str")
    owner = user[USER[0]].str.cat(user[USER[1:]], sep="/").to_numpy(np.str_)
    parts = cut(owner, None, longest)
    table, user, owner = table.iloc[parts.order], user.iloc[parts.order], owner[parts.order]
    train = owner_parts(owner) == "train"
    codes = {name: Codes.of(user[name][train]) for name in USER}
    steps = Steps(
        start=parts.start,
        x=np.stack([codes[name](user[name].iloc[parts.first]) for name in USER], axis=1).astype(np.float32),
        a=_context(table, pd.DatetimeIndex(table["timestamp"]), parts, table[affinity].to_numpy(np.float64)),
        t=table["item_id"].to_numpy(np.int32),
        y=table["click"].to_numpy(np.float32),
        propensity=table["propensity_score"].to_numpy(np.float64),
    )
    about = {
        "actions": items,
        "other_action": None,
        "x_names": USER,
        "x_kinds": ["category"] * len(USER),
        "x_categories": {name: codes[name].count for name in USER},
        "a_names": list(A_NAMES),
        "a_kinds": ["binary"] * len(POSITIONS) + ["continuous"] * (len(A_NAMES) - len(POSITIONS)),
        "exclusions": {"duplicate_rows": again},
    }
    return Sequences(owner[parts.first], steps, about, user["user_feature_0"].iloc[parts.first].to_numpy(np.str_))


def _impressions(file: Raw, items: int, affinity: list[str]) -> tuple[pd.DataFrame, int]:
    """The rows, checked, each once, and how many repeated another."""
    table = read_table(file, index_col=0)
    needed = ["timestamp", "item_id", "click", "propensity_score", "position", *USER, *affinity]
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(f"{file.path}: expected a column {missing[0]!r}, found none")
    item, click, share = table["item_id"], table["click"], table["propensity_score"]
    refuse_rows(~item.isin(range(items)), item, file.path, "item_id", f"an id from 0 to {items - 1}")
    refuse_rows(~click.isin((0, 1)), click, file.path, "click", "0 or 1")
    refuse_rows(~((share > 0) & (share <= 1)), share, file.path, "propensity_score", "above 0 and at most 1")
    refuse_rows(~table["position"].isin(POSITIONS), table["position"], file.path, "position", "1, 2 or 3")
    stamps = on_clock(parse_stamps(table["timestamp"], file.path), zone=None)
    refuse_turning_back(pd.Series(stamps), file.path, "timestamp")
    return without_duplicates(table.assign(timestamp=stamps))


def _context(
    table: pd.DataFrame, stamps: pd.DatetimeIndex, parts: Cut, affinity: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Columns ``A_NAMES``, [impressions, 18]."""
    hour = 2 * np.pi * (stamps.hour + stamps.minute / 60) / 24
    day = 2 * np.pi * stamps.day_of_week / 7
    seconds = np.diff(stamps.to_numpy(), prepend=stamps.to_numpy()[:1]) / np.timedelta64(1, "s")
    gap = np.where(parts.position == 0, 0.0, seconds)
    item_group = np.arange(affinity.shape[1]) * GROUPS // affinity.shape[1]
    columns = [
        one_hot(table["position"], POSITIONS),
        np.stack([np.sin(hour), np.cos(hour), np.sin(day), np.cos(day)], axis=1),
        np.stack([np.log1p(parts.position), np.log1p(gap)], axis=1),
        np.stack([affinity.sum(1), affinity.max(1), (affinity > 0).sum(1)], axis=1),
        np.stack([affinity[:, item_group == group].sum(1) for group in range(GROUPS)], axis=1),
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)
