"""Finds classes by name: one module a name, in a package of ours or behind an entry point of somebody else's."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from fedloom.errors import InputError


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, str]:
    # To ask is to read what is known of every package on the path, which is what the answer depends on.
    return {point.name: point.module for point in entry_points(group=group)}


@dataclass(frozen=True)
class Registry:
    """Names and classes of one kind: modules of ``package``, and entry points of the group of the same name.

    The module of a name defines exactly one class whose ``name`` is that name.
    """

    kind: str
    package: str

    def modules(self) -> dict[str, str]:
        """Importable module path by name; nothing is imported."""
        package = importlib.import_module(self.package)
        own = {
            m.name: f"{self.package}.{m.name}"
            for m in pkgutil.iter_modules(package.__path__)
            if not m.ispkg and m.name != "registry"
        }
        return own | _installed(self.package, tuple(sys.path))

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self.modules())

    def module(self, name: str) -> ModuleType:
        """The module of a name. Raises InputError for a name that nobody registered."""
        modules = self.modules()
        if name not in modules:
            raise InputError(f"{self.kind}: expected one of {', '.join(self.names())}; found {name!r}")
        return importlib.import_module(modules[name])

    def get(self, name: str) -> Any:
        """The class of a name. Raises InputError for a name that nobody registered."""
        module = self.module(name)
        for _, value in inspect.getmembers(module, inspect.isclass):
            if value.__module__ == module.__name__ and getattr(value, "name", None) == name:
                return value
        raise InputError(
            f"{self.kind} {name!r}: expected a class with name = {name!r} in {module.__name__}; found none"
        )
