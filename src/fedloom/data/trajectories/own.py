"""One's own log of decisions as trajectories: a long table of steps, and a table of owners if there is one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.raw import Raw, RawFolder
from fedloom.data.stamps import parse_stamps
from fedloom.data.tables import numbers, read_table
from fedloom.data.trajectories.sequences import Sequences, cut, refuse_rows, without_duplicates
from fedloom.data.trajectories.table import Steps
from fedloom.errors import InputError

NEEDED = ["owner", "time", "action", "outcome"]


def csv(raw: RawFolder, *, actions: int, longest: int = 50) -> Sequences:
    """Read ``steps`` (owner, time, action, outcome, optionally propensity, then columns of context) and ``owners``
    (owner, then static columns; optional).

    Times (numbers, or stamps in ISO 8601) never fall within an owner; actions are whole numbers below ``actions``;
    outcomes lie in [0, 1]. An owner without steps and a row that repeats another are left out and counted.
    """
    table, again = _steps(raw.open("steps"), actions)
    context = [name for name in table.columns if name not in [*NEEDED, "propensity"]]
    parts = cut(table["owner"].to_numpy(np.str_), None, longest)
    table = table.iloc[parts.order]
    owner = table["owner"].to_numpy(np.str_)
    static = _owners(raw, owner[parts.first])
    steps = Steps(
        start=parts.start,
        x=static.loc[owner[parts.first]].to_numpy(np.float32),
        a=table[context].to_numpy(np.float32),
        t=table["action"].to_numpy(np.int32),
        y=table["outcome"].to_numpy(np.float32),
        propensity=table["propensity"].to_numpy(np.float64),
    )
    about = {
        "actions": actions,
        "other_action": None,
        "x_names": list(static.columns),
        "x_kinds": _kinds(static),
        "a_names": context,
        "a_kinds": _kinds(table[context]),
        "exclusions": {
            "duplicate_rows": again,
            "owners_without_steps": len(static.index.difference(pd.Index(owner))),
        },
    }
    return Sequences(owner[parts.first], steps, about)


def _steps(file: Raw, actions: int) -> tuple[pd.DataFrame, int]:
    """The steps, checked, as numbers, each once, and how many repeated another."""
    table = read_table(file, dtype={"owner": "str"})
    where = file.path
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise InputError(f"{where}: expected columns {', '.join(NEEDED)}, found no {missing[0]!r}")
    table = table.assign(propensity=table.get("propensity", np.nan))
    context = [name for name in table.columns if name not in [*NEEDED, "propensity"]]
    numbered = numbers(table[["action", "outcome", "propensity", *context]], where)
    table = pd.concat([table[["owner", "time"]], numbered], axis=1)
    refuse_rows(table["owner"].isna(), table["owner"], where, "owner", "a name")
    refuse_rows(
        ~table["action"].isin(range(actions)), table["action"], where, "action", f"an id from 0 to {actions - 1}"
    )
    refuse_rows(~table["outcome"].between(0, 1), table["outcome"], where, "outcome", "a number from 0 to 1")
    share = table["propensity"]
    refuse_rows((share <= 0) | (share > 1), share, where, "propensity", "above 0 and at most 1, or empty")
    time = table["time"]
    if not pd.api.types.is_numeric_dtype(time):
        time = pd.Series(parse_stamps(time, where))
    refuse_rows(time.isna(), table["time"], where, "time", "a number or a stamp")
    before = time.groupby(table["owner"]).shift()
    refuse_rows(time < before, table["time"], where, "time", "one that does not lie before the owner's last")
    return without_duplicates(table)


def _owners(raw: RawFolder, owner: np.ndarray) -> pd.DataFrame:
    if not raw.has("owners"):
        return pd.DataFrame(index=pd.Index(owner).unique())
    file = raw.open("owners")
    table = read_table(file, dtype={"owner": "str"})
    if "owner" not in table:
        raise InputError(f"{file.path}: expected a column 'owner', found none")
    refuse_rows(table["owner"].duplicated(), table["owner"], file.path, "owner", "each owner once")
    table = table.set_index("owner")
    unknown = pd.Index(owner).difference(table.index)
    if len(unknown):
        raise InputError(f"{file.path}: owner: expected every owner of the steps, found no {unknown[0]!r}")
    return numbers(table, file.path)


def _kinds(table: pd.DataFrame) -> list[str]:
    """ "binary" for a column of zeros and ones alone."""
    return ["binary" if table[name].isin((0, 1)).all() else "continuous" for name in table.columns]
