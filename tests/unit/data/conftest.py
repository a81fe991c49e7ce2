"""Puts raw files where the fetch step leaves them, so that readers can be tried on small files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedloom.data.raw import Note, land, sha256

Put = Callable[[Path, str, str, bytes | Path], None]


@pytest.fixture
def put() -> Put:
    """Return ``put(folder, key, form, it)``: lay bytes, or a copy of a file, into a folder as a raw file."""

    def lay(folder: Path, key: str, form: str, content: bytes | Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{key}.part"
        temporary.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
        land(temporary, folder / key, Note(form, sha256(temporary), "path", key))

    return lay
