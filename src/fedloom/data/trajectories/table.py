"""Trajectories: one row a sequence of decisions, with what was known, what was done and what came of it.

The artifact is a folder with ``trajectories.parquet`` and ``about.json``. Values are raw: scaling belongs to the
partition, which alone knows the training rows. The schema is checked when the artifact is written and again when it is
read. This module imports only pandas and pyarrow: training code reads trajectories too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fedloom.data.described import read_described, require_keys, require_schema, write_described
from fedloom.data.trajectories.checks import check_table
from fedloom.errors import InputError, require

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "owner": pa.string(),
        "x": pa.list_(pa.float32()),
        "a": pa.list_(pa.float32()),
        "t": pa.list_(pa.int32()),
        "y": pa.list_(pa.float32()),
        "propensity": pa.list_(pa.float64()),
        "label": pa.string(),
    }
)
ABOUT_KEYS = (
    "dataset",
    "part",
    "unit",
    "actions",
    "other_action",
    "dx",
    "da",
    "longest",
    "x_names",
    "a_names",
    "a_kinds",
    "rows",
    "owners",
    "exclusions",
)
KINDS = ("continuous", "binary", "category")


@dataclass(frozen=True)
class TrajectorySet:
    """Sequences of at most ``longest`` steps.

    table: one row a sequence. ``id`` (int64, unique), ``owner`` (str: student, patient, user), ``label`` (str: what a
        split into clients may deal by, empty if nothing) and five lists: ``x`` [dx], ``a`` [L * da] (step by step),
        ``t`` [L] (action ids below ``actions``), ``y`` [L] (outcomes in [0, 1]), ``propensity`` [L] (probability of the
        logged action, NaN if unknown). Unknown entries of ``x`` and ``a`` are NaN.
    about: what the data are. Keys ``ABOUT_KEYS``; also, where they apply, ``x_kinds`` (as ``a_kinds``, each one of
        ``KINDS``), ``x_categories`` and ``a_categories`` (name -> number of codes of a category column),
        ``action_names`` (one a real id), ``anchors`` ({"off", "on"}: fixed by a generator).
    """

    table: pd.DataFrame
    about: dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """The same sequences as flat arrays: ``start`` [n + 1] delimits the steps of each of the n sequences."""

    start: NDArray[np.int64]
    x: NDArray[np.float32]  # [n, dx]
    a: NDArray[np.float32]  # [steps, da]
    t: NDArray[np.int32]
    y: NDArray[np.float32]
    propensity: NDArray[np.float64]

    @property
    def length(self) -> NDArray[np.int64]:
        """Number of steps of each sequence, [n]."""
        return np.diff(self.start)

    @property
    def row(self) -> NDArray[np.int64]:
        """Sequence of each step, [steps]."""
        return np.repeat(np.arange(len(self.start) - 1), self.length)


@dataclass(frozen=True)
class Padded:
    """n sequences of one length L; beyond a sequence's own length ``mask`` is False and ``t`` is the padding id."""

    x: NDArray[np.float32]  # [n, dx]
    a: NDArray[np.float32]  # [n, L, da]
    t: NDArray[np.int64]  # [n, L]
    y: NDArray[np.float32]  # [n, L]
    propensity: NDArray[np.float64]  # [n, L], NaN where unknown or padded
    mask: NDArray[np.bool_]  # [n, L]


def trajectory_table(ids: Any, owner: Any, steps: Steps, label: Any = None) -> pd.DataFrame:
    """The table of ``steps``; ``ids``, ``owner`` and ``label`` hold one entry a sequence, rows come sorted by id."""
    n = len(steps.start) - 1

    def lists(flat: NDArray[Any], width: int = 1) -> list[NDArray[Any]]:
        bounds = steps.start * width
        return [flat[bounds[i] : bounds[i + 1]] for i in range(n)]

    table = pd.DataFrame(
        {
            "id": np.asarray(ids, dtype=np.int64),
            "owner": pd.Series(list(owner), dtype="str"),
            "x": list(steps.x),
            "a": lists(steps.a.reshape(-1), steps.a.shape[1]),
            "t": lists(steps.t),
            "y": lists(steps.y),
            "propensity": lists(steps.propensity),
            "label": pd.Series([""] * n if label is None else list(label), dtype="str"),
        }
    )
    return table.sort_values("id", kind="stable", ignore_index=True)


def flat_steps(data: TrajectorySet) -> Steps:
    """The sequences of ``data`` as flat arrays, in the order of its rows."""
    table, about = data.table, data.about

    def joined(name: str, kind: Any) -> NDArray[Any]:
        return np.concatenate([np.empty(0, kind), *table[name]]).astype(kind)

    return Steps(
        start=np.concatenate([[0], np.cumsum([len(t) for t in table["t"]], dtype=np.int64)]).astype(np.int64),
        x=joined("x", np.float32).reshape(len(table), about["dx"]),
        a=joined("a", np.float32).reshape(-1, about["da"]),
        t=joined("t", np.int32),
        y=joined("y", np.float32),
        propensity=joined("propensity", np.float64),
    )


def pad(data: TrajectorySet, longest: int | None = None) -> Padded:
    """Arrays of one length, ``longest`` or the ``longest`` of ``about``; padded actions get the id ``actions``.

    Raises InputError where a sequence is longer.
    """
    steps = flat_steps(data)
    length = data.about["longest"] if longest is None else longest
    if steps.length.max(initial=0) > length:
        raise InputError(
            f"{data.about['dataset']}: expected at most {length} steps a sequence, found {steps.length.max()}"
        )
    mask = np.arange(length)[None, :] < steps.length[:, None]
    shape = mask.shape
    a = np.zeros((*shape, steps.a.shape[1]), np.float32)
    t = np.full(shape, data.about["actions"], np.int64)
    y = np.zeros(shape, np.float32)
    propensity = np.full(shape, np.nan)
    a[mask], t[mask], y[mask], propensity[mask] = steps.a, steps.t, steps.y, steps.propensity
    return Padded(steps.x, a, t, y, propensity, mask)


def scaled(padded: Padded, about: dict[str, Any]) -> Padded:
    """``padded`` in the scale of a partition's ``about``; an unknown entry becomes 0, the mean. Padded steps stay 0."""
    found = {}
    for name in ("x", "a"):
        # In place and in single precision: the context of a large log is the largest array there is.
        values = getattr(padded, name) - np.asarray(about[f"{name}_mean"], np.float32)
        values /= np.asarray(about[f"{name}_sd"], np.float32)
        found[name] = np.nan_to_num(values, copy=False, nan=0.0)
    found["a"][~padded.mask] = 0
    return dataclasses.replace(padded, **found)


def write_trajectories(data: TrajectorySet, folder: Path) -> None:
    """Check ``data`` and write it to ``folder``; ``about.json`` comes last, so its presence means a whole artifact.

    Raises InputError for trajectories that break the schema.
    """
    _check(data, "trajectories")
    table = pa.Table.from_pandas(data.table, schema=SCHEMA, preserve_index=False)
    write_described(folder, data.about, {"trajectories": table.replace_schema_metadata(None)})


def read_trajectories(folder: Path) -> TrajectorySet:
    """Read and check the artifact in ``folder``. Raises InputError for a missing file or one that breaks the schema."""
    tables, about = read_described(folder, ["trajectories"])
    require_schema(tables["trajectories"], SCHEMA, f"{folder}/trajectories.parquet")
    data = TrajectorySet(tables["trajectories"].to_pandas().astype({"owner": "str", "label": "str"}), about)
    _check(data, str(folder))
    return data


def _check(data: TrajectorySet, where: str) -> None:
    about, table = data.about, data.table
    require_keys(about, ABOUT_KEYS, where)
    require(list(table.columns) == SCHEMA.names, where, "columns", ", ".join(SCHEMA.names), ", ".join(table.columns))
    require(len(table) > 0, where, "rows", "at least one sequence", "none")
    require(len(table) == about["rows"], where, "rows", str(about["rows"]), str(len(table)))
    owners = table["owner"].nunique()
    require(owners == about["owners"], where, "owners", str(about["owners"]), str(owners))
    for name in ("x", "a"):
        for key in (f"{name}_names", f"{name}_kinds"):
            count = len(about.get(key, about[f"{name}_names"]))
            require(count == about[f"d{name}"], where, key, f"{about[f'd{name}']} entries", str(count))
        unknown = [kind for kind in about.get(f"{name}_kinds", []) if kind not in KINDS]
        require(not unknown, where, f"{name}_kinds", ", ".join(KINDS), ", ".join(unknown))
    check_table(table, about, where)
