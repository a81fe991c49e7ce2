"""What a step's code computes, as one hash: it moves with formulas and never with comments, docstrings or touches.

A digest covers a step's script, what its run names (a task, a method, a client model) and everything in the
package that these import, directly or not, each as a syntax tree without docstrings; and files that lie beside such a
module and are named in it, such as a style. The closure never passes a registry, which knows every method: otherwise an
edit of one method would reach all.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import fedloom

PACKAGE = "fedloom"
FILE = re.compile(r"[\w-]+\.\w+")
REGISTRIES = frozenset(
    f"fedloom.{place}.registry" for place in ("methods", "models", "federation.tasks", "evaluation.families")
)


def code_digest(script: Path, plugged: Iterable[type | ModuleType] = ()) -> str:
    """Hash (hex) over ``closure(script, plugged)``."""
    parts = (f"{name} {content}" for name, content in sorted(closure(script, plugged).items()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def closure(script: Path, plugged: Iterable[type | ModuleType] = ()) -> dict[str, str]:
    """Name -> what counts, of ``script``, of what is ``plugged`` into it and of all that these import or read.

    What counts of a module is the dump of its tree, of another file its hash. Files outside the package (a script, a
    method of somebody else's) go by their file name; only what they import from the package is followed.
    """
    found: dict[str, str] = {}
    waiting = [path.resolve() for path in (script, *(Path(inspect.getfile(kind)) for kind in plugged))]
    while waiting:
        path = waiting.pop()
        name = _name(path)
        if name in found or name in REGISTRIES:
            continue
        found[name], others = _known(path, path.stat().st_mtime_ns)
        waiting.extend(others)
    return found


@cache
def _known(path: Path, changed: int) -> tuple[str, tuple[Path, ...]]:
    """What counts of the file that was last ``changed`` then, and the files that it imports or names."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest(), ()
    dump, imports, texts = _facts(path.read_text(encoding="utf-8"), _name(path))
    named = (file for file in map(path.with_name, texts) if file.is_file())
    return dump, tuple(dict.fromkeys([*(file for module in imports for file in _files(module)), *named]))


def _root() -> Path:
    return Path(inspect.getfile(fedloom)).resolve().parent


@cache
def _name(path: Path) -> str:
    if not path.is_relative_to(_root()):
        return path.name
    inside = path.relative_to(_root().parent)
    parts = (inside.with_suffix("") if path.suffix == ".py" else inside).parts
    return ".".join(parts) if parts[-1] != "__init__" else ".".join(parts[:-1]) + ".__init__"


@cache
def _files(module: str) -> tuple[Path, ...]:
    """Files that importing ``module`` runs: the packages above it, and its own where it is a module."""
    parts = module.split(".")
    places = (_root().parent.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1))
    wanted = (file for place in places for file in (place / "__init__.py", place.with_suffix(".py")))
    return tuple(file for file in wanted if file.is_file())


def _facts(source: str, name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Of one module: the dump of its tree without docstrings, what it imports of the package, names of files in it."""
    tree = ast.parse(source, name)
    imports = tuple(sorted(set(_imports(tree, name))))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    texts = (text for text in constants if isinstance(text, str) and FILE.fullmatch(text) and text[-3:] != ".py")
    return ast.dump(tree), imports, tuple(sorted(texts))


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
