"""All families' evaluations by name: the modules of this package."""

from __future__ import annotations

from fedloom.federation.registry import Registry

_REGISTRY = Registry("family", "fedloom.evaluation.families")
names, get, module = _REGISTRY.names, _REGISTRY.get, _REGISTRY.module
