"""The small problems by family: the modules of this package."""

from __future__ import annotations

from fedloom.check.problem import Problem
from fedloom.federation.registry import Registry

_REGISTRY = Registry("family", "fedloom.check.problems")
names = _REGISTRY.names


def problem_for(family: str, equal: bool = False) -> Problem:
    """The problem of a family of tasks; equal samples for all clients where ``equal``.

    Raises InputError for a family that has none.
    """
    found: Problem = _REGISTRY.get(family).small(equal)
    return found
