"""A partition on disk: a parquet table for each of its fields and, last, ``partition.json`` with how it was made.

A kind of partition is a dataclass of ``about`` and some tables, whose columns it declares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from fedloom.data.described import read_described, write_described
from fedloom.errors import InputError, require


class Partition(Protocol):
    """What all kinds have: how it was made, and table -> columns (without the index)."""

    columns: ClassVar[dict[str, tuple[str, ...]]]

    @property
    def about(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Partition)


def write_partition(partition: Partition, folder: Path) -> None:
    """Write ``partition`` to ``folder``; ``partition.json`` comes last, so its presence means a whole partition."""
    tables = {name: pa.Table.from_pandas(getattr(partition, name)) for name in partition.columns}
    write_described(folder, partition.about, tables, "partition")


def read_partition(kind: type[P], folder: Path) -> P:
    """The partition in ``folder``. Raises InputError where a file is missing or has other content."""
    tables, about = read_described(folder, kind.columns, "partition")
    frames = {name: table.to_pandas() for name, table in tables.items()}
    for name, expected in kind.columns.items():
        found = ", ".join(map(str, frames[name].columns))
        require(found == ", ".join(expected), f"{folder / name}.parquet", "columns", ", ".join(expected), found)
    try:
        return kind(about=about, **frames)  # type: ignore[call-arg]
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
