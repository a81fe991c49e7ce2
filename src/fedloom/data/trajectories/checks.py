"""What every table of trajectories must hold; each breach is one line that names the sequence and the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.errors import InputError, require


def check_table(table: pd.DataFrame, about: dict[str, Any], where: str) -> None:
    """Raise InputError for the first sequence that breaks the schema of ``TrajectorySet``."""
    ids = table["id"].to_numpy()
    twice = table["id"].duplicated()
    require(not twice.any(), where, "id", "each sequence once", f"id {ids[int(twice.argmax())]} twice")
    nameless = (table["owner"].isna() | (table["owner"] == "")).to_numpy()
    require(not nameless.any(), where, f"sequence {ids[int(nameless.argmax())]}", "an owner", "none")
    length = _lengths(table["t"])
    empty = length == 0
    require(not empty.any(), where, f"sequence {ids[int(empty.argmax())]}", "at least one step", "none")
    long = length > about["longest"]
    place = int(long.argmax())
    require(not long.any(), where, f"sequence {ids[place]}", f"at most {about['longest']} steps", str(length[place]))
    for name, expected in (
        ("x", np.full(len(table), about["dx"])),
        ("a", length * about["da"]),
        ("y", length),
        ("propensity", length),
    ):
        found = _lengths(table[name])
        wrong = found != expected
        place = int(wrong.argmax())
        require(
            not wrong.any(), where, f"sequence {ids[place]}, {name}", f"{expected[place]} values", str(found[place])
        )
    _check_steps(table, about, length, where)


def _check_steps(table: pd.DataFrame, about: dict[str, Any], length: NDArray[np.int64], where: str) -> None:
    ids = table["id"].to_numpy()
    start = np.concatenate([[0], np.cumsum(length)])

    def refuse(wrong: NDArray[np.bool_], values: NDArray[Any], name: str, expected: str, width: int = 1) -> None:
        if wrong.any():
            step, column = divmod(int(wrong.argmax()), width)
            row = int(np.searchsorted(start, step, "right")) - 1
            entry = f", entry {column + 1}" if width > 1 else ""
            place = f"sequence {ids[row]}, step {step - start[row] + 1}, {name}{entry}"
            raise InputError(f"{where}: {place}: expected {expected}, found {values[wrong][0]}")

    t, y = np.concatenate([*table["t"]]), np.concatenate([*table["y"]])
    a, propensity = np.concatenate([*table["a"]]), np.concatenate([*table["propensity"]])
    actions = about["actions"]
    refuse((t < 0) | (t >= actions), t, "action", f"an id from 0 to {actions - 1}")
    refuse(~((y >= 0) & (y <= 1)), y, "outcome", "a number from 0 to 1")
    refuse((propensity <= 0) | (propensity > 1), propensity, "propensity", "above 0 and at most 1, or unknown")
    refuse(np.isinf(a), a, "context", "finite numbers, NaN where unknown", max(about["da"], 1))
    infinite = np.array([np.isinf(x).any() for x in table["x"]])
    place = int(infinite.argmax())
    require(
        not infinite.any(), where, f"sequence {ids[place]}, x", "finite numbers, NaN where unknown", "an infinite one"
    )


def _lengths(column: pd.Series) -> NDArray[np.int64]:
    return np.fromiter((0 if values is None else len(values) for values in column), dtype=np.int64, count=len(column))
