"""What a step's code computes, as one hash: it moves with formulas and never with comments, docstrings or touches.

A digest covers a step's script, what its run names (a task, a method, a client model) and everything in the
package that these import, directly or not, each as a syntax tree without docstrings. The closure never passes a
registry, which knows every method: otherwise an edit of one method would reach all.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import fedloom

PACKAGE = "fedloom"
REGISTRIES = frozenset(
    f"fedloom.{place}.registry" for place in ("methods", "models", "federation.tasks", "evaluation.families")
)


def code_digest(script: Path, plugged: Iterable[type | ModuleType] = ()) -> str:
    """Hash (hex) over the syntax trees of ``closure(script, plugged)``, each under its module's name."""
    code = closure(script, plugged)
    trees = (f"{name} {_facts(source, name)[0]}" for name, source in sorted(code.items()))
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()


def closure(script: Path, plugged: Iterable[type | ModuleType] = ()) -> dict[str, str]:
    """Module name -> source text of ``script``, of what is ``plugged`` into it and of all that these import.

    Files outside the package (a script, a method of somebody else's) go by their file name; only what they import
    from the package is followed.
    """
    found: dict[str, str] = {}
    waiting = [path.resolve() for path in (script, *(Path(inspect.getfile(kind)) for kind in plugged))]
    while waiting:
        path = waiting.pop()
        name = _module_name(path)
        if name not in found and name not in REGISTRIES:
            found[name] = path.read_text(encoding="utf-8")
            waiting.extend(file for module in _facts(found[name], name)[1] for file in _files(module))
    return found


@cache
def _root() -> Path:
    return Path(inspect.getfile(fedloom)).resolve().parent


@cache
def _module_name(path: Path) -> str:
    if not path.is_relative_to(_root()):
        return path.name
    parts = path.relative_to(_root().parent).with_suffix("").parts
    return ".".join(parts) if parts[-1] != "__init__" else ".".join(parts[:-1]) + ".__init__"


@cache
def _files(module: str) -> tuple[Path, ...]:
    """Files that importing ``module`` runs: the packages above it, and its own where it is a module."""
    parts = module.split(".")
    places = (_root().parent.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1))
    wanted = (file for place in places for file in (place / "__init__.py", place.with_suffix(".py")))
    return tuple(file for file in wanted if file.is_file())


@cache
def _facts(source: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Of one module: the dump of its tree without docstrings, and the names inside the package that it imports."""
    tree = ast.parse(source, name)
    imports = tuple(sorted(set(_imports(tree, name))))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return ast.dump(tree), imports


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imports(tree: ast.AST, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(name.split(".")[: -node.level]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            if origin.split(".")[0] == PACKAGE:
                # What is imported may be a module itself; where it is not, no file has its name.
                yield from (f"{origin}.{alias.name}" for alias in node.names)
