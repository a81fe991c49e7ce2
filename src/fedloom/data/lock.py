"""Hashes of files for which no published hash is known: pinned at the first download, verified from then on.

The lock lies beside the datasets' settings, under version control, so that whoever fetches next gets the same bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedloom.artifacts import read_json, write_text
from fedloom.errors import InputError


def pinned(lock: Path, name: str) -> str | None:
    """The hash pinned for ``name`` (dataset/key/form), or None."""
    return _read(lock).get(name)


def pin(lock: Path, name: str, sha256: str) -> None:
    """Pin ``sha256`` for ``name``; several jobs may do so at once. Raises InputError if another hash is pinned."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with _alone(lock.parent):
        pins = _read(lock)
        if pins.setdefault(name, sha256) != sha256:
            raise InputError(f"{lock}: {name}: expected sha256 {pins[name]}, found {sha256}")
        write_text(lock, json.dumps(pins, indent=2, sort_keys=True) + "\n")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's own lock: it leaves no file behind, and replacing the lock file does not lose it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(lock: Path) -> dict[str, str]:
    return read_json(lock, "a lock file") if lock.is_file() else {}
