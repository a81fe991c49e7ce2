"""An artifact that is a parquet table and, in ``about.json`` beside it, what the table is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedloom.artifacts import atomic, read_json, write_text
from fedloom.errors import InputError


def write_described(table: pa.Table, about: dict[str, Any], folder: Path, name: str, rows: int | None = None) -> None:
    """Write ``{name}.parquet`` (``rows`` a group) and, last, ``about.json``: its presence means a whole artifact."""
    with atomic(folder / f"{name}.parquet") as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=rows)
    write_text(folder / "about.json", json.dumps(about, indent=2, sort_keys=True) + "\n")


def read_described(folder: Path, name: str, schema: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    """The table ``{name}.parquet`` and what it is. Raises InputError for a missing file or other columns."""
    path = folder / f"{name}.parquet"
    about = read_about(folder)
    if not path.is_file():
        raise InputError(f"{path}: expected a table of {name}, found no such file")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: expected a parquet table, found {str(error).splitlines()[0]}") from error
    if table.schema.names != schema.names or table.schema.types != schema.types:
        raise InputError(f"{path}: expected columns {_columns(schema)}, found {_columns(table.schema)}")
    return table, about


def read_about(folder: Path) -> dict[str, Any]:
    """What the table in ``folder`` says of itself. Raises InputError where it says nothing."""
    return read_json(folder / "about.json", "what the table beside it is")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
