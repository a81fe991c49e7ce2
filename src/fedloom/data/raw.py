"""Raw files on disk: bytes of one accepted form, with a note beside them that says which, and its hash.

The hash is checked again at every reading. A file that no longer agrees is set aside as ``*.bad``.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pooch

from fedloom.artifacts import write_text
from fedloom.errors import InputError


@dataclass(frozen=True)
class Note:
    """What is known of a raw file: its form, hash, kind of source (path, mirror, wheel, url) and original name."""

    form: str
    sha256: str
    source: str
    name: str


@dataclass(frozen=True)
class Raw:
    """A verified raw file, or a member of one that is an archive: then ``data`` holds the member's bytes."""

    path: Path
    form: str
    data: bytes | None = None


def note_path(path: Path) -> Path:
    """The note beside the raw file at ``path``."""
    return path.with_name(path.name + ".json")


def land(temporary: Path, path: Path, note: Note) -> None:
    """Give verified bytes their final name; the note comes last, so its presence means a whole file."""
    with open(temporary, "rb+") as handle:
        os.fsync(handle.fileno())
    os.replace(temporary, path)
    write_text(note_path(path), json.dumps(asdict(note), indent=2, sort_keys=True) + "\n")


def quarantine(path: Path) -> Path:
    """Set a bad file aside under ``*.bad`` beside it, without its note, and return that path."""
    bad = path.with_name(path.name + ".bad")
    os.replace(path, bad)
    note_path(path).unlink(missing_ok=True)
    return bad


def sha256(path: Path) -> str:
    """The hash of the file at ``path``, 64 hexadecimal digits."""
    return str(pooch.file_hash(str(path), alg="sha256"))


@dataclass(frozen=True)
class RawFolder:
    """The raw files of one dataset by key."""

    path: Path

    def open(self, key: str) -> Raw:
        """The file ``key``, verified. Raises InputError if it is missing or not the bytes that were fetched."""
        path = self.path / key
        if not path.is_file() or not note_path(path).is_file():
            raise InputError(f"{path}: expected a fetched raw file with its note, found none")
        note = Note(**json.loads(note_path(path).read_text(encoding="utf-8")))
        found = sha256(path)
        if found != note.sha256:
            bad = quarantine(path).name
            again = f"set aside as {bad}, run again to fetch it anew"
            raise InputError(f"{path}: expected sha256 {note.sha256}, found {found}; {again}")
        return Raw(path, note.form)

    def has(self, key: str) -> bool:
        """Whether the dataset has a file ``key``."""
        return note_path(self.path / key).is_file()

    def member(self, key: str, name: str) -> Raw:
        """The file ``name`` inside the archive ``key``; its form is what follows the first dot of its name."""
        archive = self.open(key)
        try:
            with zipfile.ZipFile(archive.path) as members:
                data = members.read(name)
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{archive.path}: expected an archive with {name}, found {error}") from error
        return Raw(archive.path / name, Path(name).name.partition(".")[2], data)
