"""All client models by name: the modules of this package, and those that others offer as ``fedloom.models``."""

from __future__ import annotations

from fedloom.federation.registry import Registry

_REGISTRY = Registry("model", "fedloom.models")
names, get, module = _REGISTRY.names, _REGISTRY.get, _REGISTRY.module
