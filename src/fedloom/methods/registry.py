"""All methods by name: the modules of this package, and those that other packages offer as ``fedloom.methods``."""

from __future__ import annotations

import dataclasses
from typing import Any

from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.registry import Registry
from fedloom.models import registry as models

_REGISTRY = Registry("method", "fedloom.methods")
names, get, module = _REGISTRY.names, _REGISTRY.get, _REGISTRY.module


def make(spec: dict[str, Any]) -> Method:
    """The method of a run's spec, with its parameters and the client model that the study names.

    Raises InputError for an unknown name, parameter or value.
    """
    kind = get(spec["method"])
    model = spec.get("model")
    client = None
    if model is not None:
        client_kind = models.get(model["name"])
        client = client_kind(parameters(client_kind.Params, model["params"], f"model {model['name']}"))
    return kind(parameters(kind.Params, spec["params"], f"method {spec['method']}"), client)


def parameters(kind: type, values: dict[str, Any], where: str) -> Any:
    """An instance of a frozen dataclass of parameters. Raises InputError naming a key that it has not."""
    known = {f.name for f in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise InputError(f"{where}: parameter: expected one of {', '.join(sorted(known))}; found {key!r}")
    return kind(**values)
