"""What a partition is, one kind a family, and how it lies on disk: parquet tables and, last, ``partition.json``.

Those who make partitions and those who train on them know no more of each other than this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pandas as pd
import pyarrow as pa

from fedloom.data.described import read_about, read_described, write_described
from fedloom.data.split import PARTS
from fedloom.errors import InputError, require

ABOUT = "partition"


@dataclass(frozen=True)
class Partition:
    """``about``: settings, what they gave, and ``dataset``. The fields after it are tables.

    ``columns`` names those of each table, without its index.
    """

    columns: ClassVar[dict[str, tuple[str, ...]]]

    about: dict[str, Any]


P = TypeVar("P", bound=Partition)


@dataclass(frozen=True)
class PanelPartition(Partition):
    """``clients``: the node (index), its scaler, its windows in each part. ``windows``: their starts.

    A window with start s has inputs [s, s + history) and targets [s + history, s + history + horizon). A row of
    ``windows`` with client -1 holds for every client. ``about`` also: interval, literal of missing readings, ``split``
    (part -> half-open range of steps).
    """

    columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "clients": ("mean", "std", *PARTS),
        "windows": ("client", "part", "start"),
    }

    clients: pd.DataFrame
    windows: pd.DataFrame


@dataclass(frozen=True)
class TrajectoryPartition(Partition):
    """``assignment``: ``id``, ``client`` (0..clients-1), ``part``; every sequence once, sorted by id.

    ``clients``: name (index, "c00" ...), number of sequences in each part. ``about`` also: ``anchors`` {"off", "on"}
    (action ids) and ``clients_without`` them; ``x_mean``, ``x_sd``, ``a_mean``, ``a_sd`` of training rows (0 and 1 for
    columns that are not continuous); ``actions``, ``longest``; ``deal_attempts`` and ``smallest_client`` (training
    sequences).
    """

    columns: ClassVar[dict[str, tuple[str, ...]]] = {"assignment": ("id", "client", "part"), "clients": PARTS}

    assignment: pd.DataFrame
    clients: pd.DataFrame

    def __post_init__(self) -> None:
        """Raise InputError where a sequence is dealt twice."""
        ids = self.assignment["id"]
        twice = ids.duplicated()
        require(not twice.any(), "assignment", "id", "each sequence once", f"{next(iter(ids[twice]), None)} twice")


@dataclass(frozen=True)
class SeriesPartition(Partition):
    """``clients``: name (index), windows in each part. ``scaling``: one row a series.

    ``scaling`` holds ``mean`` and ``sd`` of a series' training part (NaN and 1 where it is left out) and the first
    points of ``validation`` and ``test``. ``windows``: ``client`` (row of ``clients``), ``part``, ``series`` (row of
    the series), ``start`` (negative where padded). ``about`` also: ``stride``, ``counts`` of what was left out, and
    what was ``compared`` with held-out targets.
    """

    columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "clients": PARTS,
        "scaling": ("mean", "sd", "validation", "test"),
        "windows": ("client", "part", "series", "start"),
    }

    clients: pd.DataFrame
    scaling: pd.DataFrame
    windows: pd.DataFrame


def write_partition(partition: Partition, folder: Path) -> None:
    """Write ``partition`` to ``folder``; ``partition.json`` comes last, so its presence means a whole partition."""
    tables = {name: pa.Table.from_pandas(getattr(partition, name)) for name in partition.columns}
    write_described(folder, partition.about, tables, ABOUT)


def read_partition(kind: type[P], folder: Path) -> P:
    """The partition in ``folder``. Raises InputError where a file is missing or has other content."""
    tables, about = read_described(folder, kind.columns, ABOUT)
    frames = {name: table.to_pandas() for name, table in tables.items()}
    for name, expected in kind.columns.items():
        found = ", ".join(map(str, frames[name].columns))
        require(found == ", ".join(expected), f"{folder / name}.parquet", "columns", ", ".join(expected), found)
    try:
        return kind(about=about, **frames)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None


def read_partition_about(folder: Path) -> dict[str, Any]:
    """How the partition in ``folder`` was made, without its tables. Raises InputError where nothing says so."""
    return read_about(folder, ABOUT)
