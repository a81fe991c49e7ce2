"""How methods, variants, metrics and data are called in print: ``config/names.yaml``, and nothing typed into code.

A name that is not listed, such as one that a plug-in brings, is printed as it is, in the group of methods without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fedloom.errors import InputError

Run = tuple[str, str]
"""A method and its variant: what a row of a table is about, with all its seeds."""


@dataclass(frozen=True)
class MethodName:
    """A method's name in print, and the group in which a table lists it."""

    label: str
    group: str


@dataclass(frozen=True)
class VariantName:
    """A variant's name in print (empty: its own), and what it changes."""

    label: str = ""
    changes: str = ""


@dataclass(frozen=True)
class Names:
    """Everything that is called something in print; ``methods`` and ``variants`` stand in the order of a table.

    ``variants`` maps a method to its variants, ``words`` metrics, reference rows, policies, estimators and sets to
    their names; ``group`` is that of methods that are not listed. Methods of the groups ``unranked`` compete with
    nothing, where a study does not rank them among themselves.
    """

    methods: dict[str, MethodName] = field(default_factory=dict)
    variants: dict[str, dict[str, VariantName]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    group: str = "Methods"
    unranked: tuple[str, ...] = ()

    def method(self, method: str) -> str:
        """The method's name in print."""
        return self.methods[method].label if method in self.methods else method

    def group_of(self, run: Run) -> str:
        """The group of a run's method."""
        return self.methods[run[0]].group if run[0] in self.methods else self.group

    def ranking(self, runs: Iterable[Run]) -> tuple[dict[Run, str], list[list[str]]]:
        """The group of each run, and those groups that are ranked, together."""
        groups = {run: self.group_of(run) for run in runs}
        return groups, [[group for group in dict.fromkeys(groups.values()) if group not in self.unranked]]

    def require_groups(self, groups: Iterable[str], where: str, others: Iterable[str] = ()) -> None:
        """Raise InputError for a group that neither methods have nor ``others`` name: it would show nothing."""
        known = {self.group, *others, *(name.group for name in self.methods.values())} - {""}
        for group in groups:
            if group not in known:
                raise InputError(f"{where}: expected one of {', '.join(sorted(known))}; found {group!r}")

    def run(self, run: Run) -> str:
        """A method's variant in print, e.g. ``A.5, hard assignment``; the base goes by the method's name."""
        method, variant = run
        if variant == "base":
            return self.method(method)
        known = self.variants.get(method, {}).get(variant, VariantName())
        return ", ".join(part for part in (known.label or variant, known.changes) if part)

    def word(self, name: str) -> str:
        """A metric, reference row, policy, estimator or set in print."""
        return self.words.get(name, name)

    def order(self, run: Run) -> tuple[int, int, str, str]:
        """The place of a run in a table: listed ones as listed, then others by name."""
        method, variant = run
        methods, variants = list(self.methods), ["base", *self.variants.get(method, {})]
        place = methods.index(method) if method in methods else len(methods)
        part = variants.index(variant) if variant in variants else len(variants)
        return place, part, method, variant


def run_of(named: str) -> Run:
    """The run that a study names ``method`` or ``method/variant``."""
    method, _, variant = named.partition("/")
    return method, variant or "base"
