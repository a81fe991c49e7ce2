"""Readers go by the name that a dataset's file gives; their keyword-only arguments are the options it may set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from fedloom.errors import InputError

Option = str | int | float | bool | None

Made = TypeVar("Made")


class Readers(Generic[Made]):
    """The readers of one section of a dataset's file: functions, each for a raw layout, found by their own names."""

    def __init__(self, section: str, *readers: Callable[..., Made]) -> None:
        """Register ``readers``; ``section`` is how messages call the place that names them."""
        self.section = section
        self.by_name = {reader.__name__: reader for reader in readers}

    def read(self, name: str, options: Mapping[str, Option], *raw: Any) -> Made:
        """What the reader ``name`` makes of ``raw``. Raises InputError for an unknown name or option or one missing."""
        if name not in self.by_name:
            expected = ", ".join(sorted(self.by_name))
            raise InputError(f"{self.section}: reader: expected one of {expected}, found {name!r}")
        parameters = inspect.signature(self.by_name[name]).parameters.values()
        known = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
        where = f"{self.section}: options of reader {name}"
        unknown = [option for option in options if option not in known]
        if unknown:
            raise InputError(f"{where}: expected {', '.join(known) or 'none'}, found {unknown[0]!r}")
        needed = [option for option, default in known.items() if default is inspect.Parameter.empty]
        missing = [option for option in needed if option not in options]
        if missing:
            raise InputError(f"{where}: expected {missing[0]!r}, found none")
        return self.by_name[name](*raw, **options)
