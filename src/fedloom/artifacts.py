"""Files that exist only whole: everything is written beside its final name and moved there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
