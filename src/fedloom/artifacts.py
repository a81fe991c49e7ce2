"""Files that exist only whole: everything is written beside its final name and moved there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedloom.errors import InputError


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; on success make it durable and give it the final name.

    On any error the temporary file is removed and ``path`` keeps what it held before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) to ``path``, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in the JSON file ``path``. Raises InputError where there is no file, ``what`` it is, or no JSON."""
    if not path.is_file():
        raise InputError(f"{path}: expected {what}, found no such file")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: expected JSON, found {error.msg} at line {error.lineno}") from error
    return content
