"""The panel: one table of readings a dataset, with its nodes, graph, covariates and, where generated, its truth.

A panel is a folder of four parquet files, a fifth with the truth, and ``about.json``. The schema is checked when a
panel is written and again when it is read, so that any stage around it can be replaced. This module imports only
pandas and pyarrow: training code reads panels too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedloom.data.described import read_described, require_keys, write_described
from fedloom.errors import require

TABLES = ("values", "nodes", "edges", "features", "truth")
ABOUT_KEYS = (
    "dataset",
    "part",
    "unit",
    "interval_minutes",
    "missing_literal",
    "rows",
    "nodes",
    "missing_share",
    "repairs",
)


@dataclass(frozen=True, repr=False)
class Panel:
    """Readings of N nodes at T stamps.

    values: index ``timestamp`` (naive local time, strictly increasing), one float32 column a node, in the dataset's
        unit; a missing reading is NaN (null on disk), never zero.
    nodes: index ``id`` in the order of the columns of ``values``; ``lat`` and ``lon`` in degrees (NaN if unknown) and
        static features. Where there is a column ``role``, a ``passive`` node has no forecasting task, an ``active`` one
        has; where there is a column ``horizon``, a node forecasts so many steps (null: as many as the partition says).
    edges: ``src``, ``dst`` (node ids) and ``weight`` (float32, positive): influence runs from src to dst.
    features: covariates by stamp. A column ``name`` is seen by every node, a column ``name/{node}`` by that node alone.
    truth: generated data only: ``regime/{node}`` (int) and ``signal/{node}`` (the value before noise, float32).
    about: what the data are and which repairs were made; the keys are ``ABOUT_KEYS``.
    """

    values: pd.DataFrame
    nodes: pd.DataFrame
    edges: pd.DataFrame
    features: pd.DataFrame = field(default_factory=pd.DataFrame)
    truth: pd.DataFrame = field(default_factory=pd.DataFrame)
    about: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: whose readings, how many, from when to when, and which share is missing."""
        steps, nodes = self.values.shape
        every, stamps = self.about.get("interval_minutes", "?"), self.values.index
        span = f"{stamps[0]} to {stamps[-1]}" if steps else "no stamp"
        missing = float(np.isnan(self.values.to_numpy()).mean()) if self.values.size else 0.0
        return (
            f"Panel({self.about.get('dataset', '?')}: {nodes} nodes, {steps} steps of {every} minutes, {span}, "
            f"{missing:.1%} missing)"
        )


def no_edges() -> pd.DataFrame:
    """Return the edge table of a panel without a graph."""
    return edge_table([], [], np.empty(0))


def edge_table(src: Any, dst: Any, weight: Any) -> pd.DataFrame:
    """Return an edge table from three sequences of one length: node ids, node ids, weights."""
    return pd.DataFrame(
        {
            "src": pd.Series(list(src), dtype="str"),
            "dst": pd.Series(list(dst), dtype="str"),
            "weight": np.asarray(weight, dtype=np.float32),
        }
    )


def write_panel(panel: Panel, folder: Path) -> None:
    """Check ``panel`` and write it to ``folder``; ``about.json`` comes last, so its presence means a whole panel.

    Raises InputError for a panel that breaks the schema.
    """
    none = pd.DataFrame(index=panel.values.index)
    unset = {name: none for name in ("features", "truth") if not len(getattr(panel, name).columns)}
    panel = dataclasses.replace(panel, **unset)
    _check(panel, "panel")
    tables = {name: pa.Table.from_pandas(getattr(panel, name)) for name in TABLES}
    write_described(folder, panel.about, tables)


def read_panel(folder: Path) -> Panel:
    """Read the panel in ``folder`` and check it. Raises InputError for a missing file or one that breaks the schema."""
    tables, about = read_described(folder, TABLES)
    panel = Panel(**{name: table.to_pandas() for name, table in tables.items()}, about=about)
    _check(panel, str(folder))
    return panel


def _check(panel: Panel, where: str) -> None:
    require_keys(panel.about, ABOUT_KEYS, where)
    _check_values(panel.values, where)
    ids = list(panel.values.columns)
    require(list(panel.nodes.index) == ids, where, "nodes", "one row a column of values, in that order", "other ids")
    require(panel.nodes.index.name == "id", where, "nodes index", "name 'id'", repr(panel.nodes.index.name))
    for column in ("lat", "lon"):
        require(column in panel.nodes.columns, where, "nodes", f"a column {column!r}", str(list(panel.nodes.columns)))
    roles = set(panel.nodes.get("role", pd.Series(dtype="str")))
    require(roles <= {"active", "passive"}, where, "nodes role", "active or passive", str(sorted(map(str, roles))))
    steps = panel.nodes.get("horizon", pd.Series(dtype="Int64")).dropna()
    require(bool((steps >= 1).all()), where, "nodes horizon", "at least 1 step", str(steps.min()))
    _check_edges(panel.edges, set(ids), where)
    for name in ("features", "truth"):
        table: pd.DataFrame = getattr(panel, name)
        require(table.index.equals(panel.values.index), where, name, "the stamps of values", "other stamps")


def _check_values(values: pd.DataFrame, where: str) -> None:
    index, ids = values.index, list(values.columns)
    require(len(values) > 0 and bool(ids), where, "values", "at least one row and one node", str(values.shape))
    require(isinstance(index, pd.DatetimeIndex), where, "values index", "timestamps", str(index.dtype))
    require(index.tz is None, where, "values index", "naive local time", f"zone {index.tz}")
    require(index.name == "timestamp", where, "values index", "name 'timestamp'", repr(index.name))
    rising = index.is_monotonic_increasing and index.is_unique
    require(rising, where, "values index", "strictly increasing stamps", "duplicate or unsorted ones")
    require(all(isinstance(i, str) for i in ids), where, "values columns", "text ids", "an id that is no text")
    require(len(set(ids)) == len(ids), where, "values columns", "unique ids", "a repeated id")
    wrong = [str(i) for i, kind in values.dtypes.items() if kind != np.float32]
    require(not wrong, where, "values", "float32 columns", f"another type at node {wrong[0] if wrong else ''}")
    infinite = np.isinf(values.to_numpy()).any()
    require(not infinite, where, "values", "finite readings, null where missing", "an infinite one")


def _check_edges(edges: pd.DataFrame, ids: set[str], where: str) -> None:
    require(list(edges.columns) == ["src", "dst", "weight"], where, "edges", "src, dst, weight", str(list(edges)))
    unknown = (set(edges["src"]) | set(edges["dst"])) - ids
    require(not unknown, where, "edges", "ends that are nodes", f"node {min(unknown, default='')!r}")
    require(not edges.duplicated(["src", "dst"]).any(), where, "edges", "each pair once", "a pair twice")
    weight = edges["weight"].to_numpy()
    sound = weight.dtype == np.float32 and bool((np.isfinite(weight) & (weight > 0)).all())
    require(sound, where, "edges weight", "positive finite float32", f"{weight.dtype} or another value")
