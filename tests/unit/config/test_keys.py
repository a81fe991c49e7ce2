"""No key of a config file without a reader, and no value that says what holds anyway."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

import fedloom
from fedloom.config.schemas import MODELS
from fedloom.evaluation.series.finetune import Adaptation
from fedloom.federation.protocol import Protocol
from fedloom.methods import registry as methods
from fedloom.models import registry as models

PACKAGE = Path(fedloom.__file__).parent


def settings_of(kind: Any, seen: set[type]) -> None:
    """Collect the models and dataclasses that lie inside the annotation ``kind``."""
    for part in get_args(kind):
        settings_of(part, seen)
    if isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)) and kind not in seen:
        seen.add(kind)
        for hint in get_type_hints(kind, include_extras=True).values():
            settings_of(hint, seen)


def all_settings() -> list[type]:
    """What files of config are read into: their models, and what these pass on to engine, methods and evaluation."""
    seen: set[type] = set()
    params = [kinds.get(name).Params for kinds in (methods, models) for name in kinds.names()]
    for root in (*MODELS.values(), Protocol, Adaptation, *params):
        settings_of(root, seen)
    return sorted(seen, key=lambda kind: (kind.__module__, kind.__qualname__))


def keys(kind: type) -> list[str]:
    """The keys of a model or dataclass."""
    return list(kind.model_fields) if issubclass(kind, BaseModel) else [f.name for f in dataclasses.fields(kind)]


def reads(tree: ast.AST) -> Iterator[str]:
    """Names of attributes that code takes, but where it only checks its own."""
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"]
    checked = {id(part) for check in checks for part in ast.walk(check)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in checked:
            yield node.attr


def read_anywhere(repository: Path) -> set[str]:
    """Names of all attributes that the package, the scripts or the rules read."""
    files = [*PACKAGE.rglob("*.py"), *(repository / "scripts").glob("*.py")]
    found = {name for file in files for name in reads(ast.parse(file.read_text()))}
    rules = [repository / "Snakefile", *(repository / "workflow" / "rules").glob("*.smk")]
    return found.union(*(re.findall(r"\.(\w+)", file.read_text()) for file in rules))


def test_every_key_is_read(repository: Path) -> None:
    read = read_anywhere(repository)
    unread = [f"{kind.__module__}: {key}" for kind in all_settings() for key in keys(kind) if key not in read]
    assert not unread, ", ".join(unread)
