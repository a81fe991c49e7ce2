"""Readers go by the name that a dataset's file gives; their keyword-only arguments are the options it may set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from fedloom.errors import InputError

Reader = TypeVar("Reader", bound=Callable[..., Any])


def named_reader(readers: Mapping[str, Reader], name: str, options: Iterable[str], section: str) -> Reader:
    """The reader ``name``. Raises InputError, in terms of ``section``, for an unknown name or option or one missing."""
    if name not in readers:
        raise InputError(f"{section}: reader: expected one of {', '.join(sorted(readers))}, found {name!r}")
    parameters = inspect.signature(readers[name]).parameters.values()
    known = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    where = f"{section}: options of reader {name}"
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InputError(f"{where}: expected {', '.join(known) or 'none'}, found {unknown[0]!r}")
    needed = [option for option, default in known.items() if default is inspect.Parameter.empty]
    missing = [option for option in needed if option not in options]
    if missing:
        raise InputError(f"{where}: expected {missing[0]!r}, found none")
    return readers[name]
