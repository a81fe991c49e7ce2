"""Artifacts on disk: a folder of parquet tables and, written last, one JSON file that says what they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedloom.artifacts import atomic, read_json, write_text
from fedloom.errors import InputError, require

ABOUT = "about"


def write_described(
    folder: Path, about: dict[str, Any], tables: Mapping[str, pa.Table], named: str = ABOUT, rows: int | None = None
) -> None:
    """Write each table (``rows`` a group) and, last, ``{named}.json``: its presence means a whole artifact."""
    for name, table in tables.items():
        with atomic(folder / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=rows)
    write_text(folder / f"{named}.json", json.dumps(about, indent=2, sort_keys=True) + "\n")


def read_described(
    folder: Path, tables: Iterable[str], named: str = ABOUT
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The named tables of an artifact and what they are. Raises InputError for a missing or damaged file."""
    about = read_about(folder, named)
    return {name: _read_table(folder / f"{name}.parquet") for name in tables}, about


def read_about(folder: Path, named: str = ABOUT) -> dict[str, Any]:
    """What the tables in ``folder`` are, by themselves. Raises InputError where nothing says so."""
    return read_json(folder / f"{named}.json", "what the tables beside it are")


def require_keys(about: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Raise InputError unless ``about`` has all ``keys``."""
    missing = [key for key in keys if key not in about]
    require(not missing, where, ABOUT, f"keys {', '.join(keys)}", f"no {', '.join(missing)}")


def require_schema(table: pa.Table, schema: pa.Schema, where: str) -> None:
    """Raise InputError unless ``table`` has the columns of ``schema``, of the same types and in the same order."""
    alike = table.schema.names == schema.names and table.schema.types == schema.types
    require(alike, where, "columns", _columns(schema), _columns(table.schema))


def _read_table(path: Path) -> pa.Table:
    if not path.is_file():
        raise InputError(f"{path}: expected a table, found no such file")
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: expected a parquet table, found {str(error).splitlines()[0]}") from error


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
