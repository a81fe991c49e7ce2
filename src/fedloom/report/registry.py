"""Finds the function that makes an artifact: ``TABLES`` and ``FIGURES`` of ``fedloom.report.studies.{study}``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedloom.errors import InputError
from fedloom.report.figure import Figure
from fedloom.report.layout import Table
from fedloom.report.shown import Shown
from fedloom.report.studies import atlas, fed_causaldiff, fedal, st_split_vfl

STUDIES = {"atlas": atlas, "fed_causaldiff": fed_causaldiff, "fedal": fedal, "st_split_vfl": st_split_vfl}


def table(study: str, name: str) -> Callable[[Shown], Table]:
    """Return what makes the table ``name`` of ``study``; InputError lists what there is."""
    found: Callable[[Shown], Table] = _find(study, "TABLES", name)
    return found


def figure(study: str, name: str) -> Callable[[Shown], Figure]:
    """Return what draws the figure ``name`` of ``study``; InputError lists what there is."""
    found: Callable[[Shown], Figure] = _find(study, "FIGURES", name)
    return found


def _find(study: str, kind: str, name: str) -> Any:
    if study not in STUDIES:
        raise InputError(f"study: expected one of {', '.join(STUDIES)}, found {study!r}")
    found: dict[str, Any] = getattr(STUDIES[study], kind)
    if name not in found:
        raise InputError(f"{study}: artifact: expected one of {', '.join(sorted(found))}, found {name!r}")
    return found[name]
