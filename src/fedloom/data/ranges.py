"""Settings of generators are numbers within ranges; one beyond its own is refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.errors import InputError


def require_ranges(section: str, settings: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise InputError, naming ``section``, for the first field of ``settings`` that lies outside its range."""
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if not low <= value <= high:
            raise InputError(f"{section}: {name}: expected a number from {low} to {high}, found {value}")
