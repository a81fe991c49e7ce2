"""Finds what draws an artifact by the name that a study gives it.

A drawing function is a public function of this package that returns a ``Table`` or a ``Figure``. It takes what is
shown and, where a study may choose, a frozen dataclass of options.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal, get_type_hints

import fedloom.report
from fedloom.errors import InputError
from fedloom.report.figure import Figure
from fedloom.report.layout import Table
from fedloom.report.shown import Shown

Kind = Literal["table", "figure"]
KINDS: dict[type, Kind] = {Table: "table", Figure: "figure"}


@dataclass(frozen=True)
class NoOptions:
    """The options of a drawing function that takes none."""


@dataclass(frozen=True)
class Drawing:
    """A drawing function, what it makes and which options it takes."""

    function: Callable[..., Any]
    kind: Kind
    options: type

    @property
    def module(self) -> ModuleType:
        """The module that the function stands in."""
        return importlib.import_module(self.function.__module__)

    def draw(self, shown: Shown, options: Any) -> Any:
        """The table or figure of what is shown; ``options`` is an instance of the class ``options``."""
        return self.function(shown) if self.options is NoOptions else self.function(shown, options)


@cache
def drawings() -> dict[str, Drawing]:
    """All drawing functions by name."""
    found: dict[str, Drawing] = {}
    for module in pkgutil.walk_packages(fedloom.report.__path__, "fedloom.report."):
        if module.name != __name__:
            found |= dict(_drawings_in(importlib.import_module(module.name)))
    return dict(sorted(found.items()))


def drawing(name: str, where: str = "draw") -> Drawing:
    """The drawing function ``name``. Raises InputError, beginning with ``where``, that lists what there is."""
    if name not in drawings():
        raise InputError(f"{where}: expected one of {', '.join(drawings())}; found {name!r}")
    return drawings()[name]


def _drawings_in(module: ModuleType) -> Iterator[tuple[str, Drawing]]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and not name.startswith("_"):
            hints = get_type_hints(function)
            kind = KINDS.get(hints.pop("return", None))
            given = list(hints.values())
            if kind and given[:1] == [Shown]:
                yield name, Drawing(function, kind, given[1] if given[1:] else NoOptions)
