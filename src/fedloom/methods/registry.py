"""All methods by name: the modules of this package, and those that other packages offer as ``fedloom.methods``."""

from __future__ import annotations

from fedloom.federation.registry import Registry

_REGISTRY = Registry("method", "fedloom.methods")
names, get, module = _REGISTRY.names, _REGISTRY.get, _REGISTRY.module
