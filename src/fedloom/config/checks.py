"""Reads YAML files and turns what is wrong with them into one line a user can act on."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedloom.errors import InputError

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls a key that its model, or its dataclass, does not have."""


class Strict(BaseModel):
    """A part of a config file: unknown keys are errors, values never change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _UniqueKeys(yaml.SafeLoader):
    """YAML without silent loss: a key that stands twice in one mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                raise yaml.YAMLError(f"line {node.start_mark.line + position + 1}: key {key!r} stands twice")
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; ``InputError`` names the file and the line of a syntax error."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def read_config(model: type[M], path: Path) -> M:
    """The file at ``path`` as a ``model``; ``InputError`` with one line where they do not agree."""
    return check(model, read_yaml(path), str(path))


def check(kind: type[T], data: Any, where: str) -> T:
    """``data`` as a ``kind`` (a pydantic model or a dataclass); ``InputError`` naming ``where`` and the key if not."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        raise InputError(f"{where}: {_describe(kind, error)}") from None


def choose(found: str, allowed: Iterable[str], where: str) -> str:
    """``found`` if it is one of ``allowed``; otherwise an ``InputError`` that lists them and names the closest."""
    options = sorted(allowed)
    if found in options:
        return found
    raise InputError(f"{where}: found {found!r}, expected {one_of(found, options)}")


def one_of(found: object, options: Sequence[str]) -> str:
    """``one of a, b, c`` with a suggestion where ``found`` is close to an option."""
    close = difflib.get_close_matches(str(found), options, n=1)
    listed = ("one of " if len(options) > 1 else "") + ", ".join(options) if options else "nothing here"
    return f"{listed} (did you mean {close[0]!r}?)" if close else listed


def _describe(kind: type, error: ValidationError) -> str:
    found_wrong = error.errors()
    # A misspelt key is often a missing one too, and its own message tells more.
    first = next((each for each in found_wrong if each["type"] in UNKNOWN_KEY), found_wrong[0])
    path, found = first["loc"], first["input"]
    key = ".".join(str(part) for part in path) or "the whole"
    if first["type"] in UNKNOWN_KEY:
        return f"unknown key {key!r}, expected {one_of(path[-1], _keys(kind, path[:-1]))}"
    if first["type"] == "missing":
        return f"key {key!r} is missing"
    if first["type"] == "literal_error":
        options = [part.strip().strip("'") for part in first["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return f"{key}: found {found!r}, expected {one_of(found, sorted(options))}"
    return f"{key}: found {found!r}, expected: {first['msg'].removeprefix('Value error, ')}"


def _keys(kind: Any, path: Sequence[int | str]) -> list[str]:
    """Names of the fields of the model, or dataclass, that lies under ``path`` inside ``kind``."""
    for part in path:
        arguments = get_args(kind)
        if _fields(kind):
            kind = _fields(kind)[str(part)]
        elif get_origin(kind) in (Union, UnionType):
            models = [argument for argument in arguments if getattr(argument, "__name__", "") == part]
            kind = models[0] if models else arguments[0]
        else:
            kind = next(argument for argument in reversed(arguments) if argument is not Ellipsis)
    if get_origin(kind) in (Union, UnionType):
        kind = next(argument for argument in get_args(kind) if _fields(argument))
    return sorted(_fields(kind))


def _fields(kind: Any) -> dict[str, Any]:
    """Field -> its annotation, of a model or a dataclass; none of anything else."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
