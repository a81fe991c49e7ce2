"""What a file of claims may say: numbers of runs, tests on them, and printed numbers that ought to agree.

Plain data. Names of methods, metrics and datasets are checked by whoever reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Relation = Literal["less", "greater", "at_least", "at_most", "within", "ordered"]
"""Of an effect to a bound; ``ordered``: every run, or number, of a list is less than the next."""

Effect = Literal["relative", "difference", "ratio", "value", "slope", "intercept", "r2", "power"]
"""``(left - right) / right``, ``left - right``, ``left / right``, ``left`` alone; of a line fitted through a series, or
the power of its growth: the slope in logarithms."""

FITTED: tuple[Effect, ...] = ("slope", "intercept", "r2", "power")
"""Effects of a series of numbers that differ in one part of their condition."""

How = Literal["mean", "least", "largest", "change", "difference", "constant"]
FROM_TO: tuple[How, ...] = ("change", "difference")
"""What is made of printed rows; these two of rows ``of`` and of those ``to`` which it goes from them."""

Record = Literal["parameters", "all_parameters", "diverged"]
"""What a run's record gives as a number: those that a client holds, on average, and all clients and the centre
together; whether training broke off (1) or not (0)."""


@dataclass(frozen=True)
class Quantity:
    """A number of a run: a ``metric``, the mean of what it logged by client and round (``log``), or of its ``record``.

    A metric's condition has the parts ``where``, and the keys ``over``, over whose values the mean is taken, and no
    other. Pairs of an interval are its clients; with ``units`` the values of that key of the condition. ``unit``
    ``mean`` gives all clients the same weight.
    """

    metric: str = ""
    log: str = ""
    record: Record | None = None
    where: dict[str, str] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    units: str = ""
    unit: Literal["pooled", "mean"] = "pooled"
    horizon: str = "all"
    selection: Literal["selected", "last"] = "selected"


@dataclass(frozen=True)
class Published:
    """A printed number: that of the dataset under test, otherwise the one that asks least of the runs."""

    table: str
    metric: str
    method: str = ""
    variant: str = ""
    condition: str = ""


@dataclass(frozen=True)
class Predicate:
    """Every run on the ``left`` against every one on the ``right`` in every number ``of``.

    ``matched``: each run on the left against the one at its place on the right, and those that were not run are left
    out. ``against`` is the right side's number where it is another; without a ``right`` side it is one of the left's
    run.
    ``by`` is the part of the condition along which a series runs, for effects of a fitted line; or the series runs
    ``across`` datasets, by their number of clients.
    """

    relation: Relation
    of: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...] = ()
    matched: bool = False
    against: str = ""
    effect: Effect = "relative"
    bound: float | Published = 0.0
    by: str = ""
    across: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A sentence in short, where it stands, and what decides it; ``datasets`` where it is about these alone."""

    says: str
    place: str
    test: Predicate
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Printed:
    """Printed numbers: all rows of a reference with these values, and what is made of them.

    A value is a regular expression. ``change`` is the mean relative change from the rows ``of`` to those of ``to``,
    ``difference`` the mean difference, matched in all columns that neither names; ``constant`` is a number that needs
    no source, such as the error of a constant forecast.
    """

    of: dict[str, str] = field(default_factory=dict)
    how: How = "mean"
    to: dict[str, str] = field(default_factory=dict)
    constant: float = 0.0


@dataclass(frozen=True)
class Contradiction:
    """Two things that print says and that cannot both be true: ``left`` ought to stand in ``relation`` to ``right``.

    ``each`` names columns: the comparison is made for each of their values that the left side has. ``digits`` is the
    precision in print: ``equal`` allows half a unit of the last one.
    """

    says: str
    place: str
    left: Printed
    right: Printed
    relation: Literal["equal", "differs", "less", "at_most", "at_least"]
    each: tuple[str, ...] = ()
    digits: int = 2
