"""No key of a config file without a reader, and no value that says what holds anyway."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel

import fedloom
from fedloom.config.dataset import SECTIONS
from fedloom.config.further import FURTHER
from fedloom.config.scale import Scale, read_scale
from fedloom.config.schemas import MODELS
from fedloom.config.study import read_study
from fedloom.federation.protocol import Protocol
from fedloom.methods import registry as methods
from fedloom.models import registry as models
from fedloom.report.registry import drawings

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
    options = [drawing.options for drawing in drawings().values()]
    for root in (*MODELS.values(), Protocol, *FURTHER.values(), *params, *options):
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


def defaults(kind: type) -> dict[str, Any]:
    """Key -> value that holds where a file does not say."""
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}
    found = {f.name: f.default for f in dataclasses.fields(kind)}
    found |= {
        f.name: f.default_factory() for f in dataclasses.fields(kind) if f.default_factory is not dataclasses.MISSING
    }
    return {name: value for name, value in found.items() if value is not dataclasses.MISSING}


def same(one: Any, other: Any) -> bool:
    """Whether a value of a file is a default, which may be a tuple where the file has a list."""
    plain = [list(value) if isinstance(value, tuple) else value for value in (one, other)]
    return bool(plain[0] == plain[1]) and type(plain[0]) is type(plain[1])


def repeated(kind: type, data: dict[str, Any], where: str) -> Iterator[str]:
    """Places where ``data``, which is read as ``kind``, says what holds anyway."""
    below, hints = defaults(kind), get_type_hints(kind)
    for key, value in data.items():
        place = f"{where}.{key}"
        if key in below and same(value, below[key]):
            yield place
        inner: set[type] = set()
        settings_of(hints.get(key), inner)
        of_many = isinstance(value, list) or get_origin(hints.get(key)) is dict
        parts = list(value.values() if isinstance(value, dict) else value) if of_many else [value]
        for part in (part for part in parts if isinstance(part, dict)):
            for each in inner:
                if part.keys() <= set(keys(each)):
                    yield from repeated(each, part, place)


def test_no_dataset_says_what_holds_anyway(repository: Path) -> None:
    found: list[str] = []
    for file in (repository / "config" / "datasets").glob("*.yaml"):
        data = yaml.safe_load(file.read_text())
        found += repeated(SECTIONS[next(name for name in SECTIONS if name in data)], data, file.stem)
    assert not found, ", ".join(found)


def repeated_layers(layers: list[tuple[str, dict[str, Any]]], below: dict[str, Any]) -> Iterator[str]:
    """Places in ``layers``, each over the one before, that change nothing of what holds ``below`` them."""
    for where, layer in layers:
        yield from (f"{where}.{key}" for key, value in layer.items() if same(value, below[key]))
        below = below | layer


def test_no_scale_says_what_holds_anyway(repository: Path) -> None:
    config = repository / "config"
    found: list[str] = []
    for file in (config / "scales").glob("*.yaml"):
        scale, written = read_scale(config / "scales", file.stem), yaml.safe_load(file.read_text())
        found += [
            f"{file.stem}.{key}" for key, value in defaults(Scale).items() if key in written and written[key] == value
        ]
        found += repeated_layers([(f"{file.stem}.protocol", scale.protocol)], defaults(Protocol))
        for name, runs in scale.studies.items():
            model = read_study(config / "studies", name).model
            of_model = [(f"{file.stem}.{name}.model", runs.model)]
            for also, settings in runs.also.items():
                found += repeated_layers([(f"{file.stem}.{name}.also.{also}", settings)], defaults(FURTHER[also]))
            for place, group in ((f"{file.stem}.{name}.{key}", g) for key, parts in runs.groups.items() for g in parts):
                protocol = [("", scale.protocol), (f"{place}.protocol", group.protocol)]
                found += [each for each in repeated_layers(protocol, defaults(Protocol)) if each.startswith(place)]
                for method in runs.params.keys() | group.params.keys():
                    layers = [(f"{file.stem}.{name}.params.{method}", runs.params.get(method, {}))]
                    layers += [(f"{place}.params.{method}", group.params.get(method, {}))]
                    found += repeated_layers(layers, defaults(methods.get(method).Params))
                if model is not None:
                    layers = [*of_model, (f"{place}.model", group.model)]
                    found += repeated_layers(layers, defaults(models.get(model).Params))
    assert not found, ", ".join(sorted(set(found)))
