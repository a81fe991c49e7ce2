"""Verdicts as a table of their study: the sentence, the verdict on each dataset, the effect and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.significance import DRAWS
from fedloom.report.claims.intervals import COUNTED, Estimate
from fedloom.report.claims.settings import FITTED, Predicate, Quantity
from fedloom.report.claims.verdicts import BETWEEN, Decided, OnDataset, Side, Tested, describe
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.names import Names

COLUMNS = [
    *["claim", "says", "place", "dataset", "verdict", "why", "relation", "bound", "effect_measure"],
    *["left", "right", "number", "effect", "lo", "hi", "seeds", "pairs"],
]
EVERYWHERE = "all"

WORST = "Worst comparison"
HEADER = [
    ("", "verdict"),
    *((WORST, column) for column in ("which", "effect", "95 % interval", "claimed")),
    *(("", column) for column in ("seeds", "drawn", "note")),
]

NOTES = (
    "A claim holds here where the interval of every comparison lies on the claimed side, on every dataset; it does not "
    "hold where one lies beyond it (at a level that the comparisons of a dataset share); otherwise, and where runs are "
    f"missing, it is not decided. Intervals: {DRAWS:,} draws of clients (or other units) and of blocks of test time, "
    "the same for both sides, and of seeds where there are several; those that evaluation kept, where it did "
    '("clients"); of few units, or seeds alone, Student\'s. One seed says nothing about chance in training. Counted: '
    "nothing was sampled. Worst: the comparison that speaks most against the claim. Effects: (left - right) / right in "
    "per cent where not said otherwise. A bound in print is the dataset's own, or else the one that asks least."
)

SIGNS = {"less": "<", "ordered": "<", "at_most": "≤", "greater": ">", "at_least": "≥", "within": "±"}
SMALL = 0.0005
"""Smaller shares would be printed as 0.0 %."""

MEASURES = {"slope": "slope", "intercept": "at 0", "r2": "R²", "power": "power"}


@dataclass(frozen=True)
class Words:
    """What runs, numbers and datasets are called in print."""

    names: Names
    labels: Mapping[str, str]
    numbers: Mapping[str, Quantity]

    def side(self, side: Side | None) -> str:
        """A run in print."""
        return self.names.run(side.run) if side else ""

    def number(self, name: str) -> str:
        """A number in print: its metric, and what else tells it from other numbers of that metric."""
        quantity = self.numbers[name]
        more = f" ({name.replace('_', ' ')})" if quantity.metric and quantity.metric != name else ""
        return self.names.word(describe(quantity)) + more

    def dataset(self, name: str) -> str:
        """A dataset in print."""
        return BETWEEN.join(self.labels.get(each, each) for each in name.split(BETWEEN))


def verdict_table(decided: Sequence[Decided], words: Words, caption: str) -> Table:
    """Set out every claim: its verdict over all datasets, and below it one row a dataset."""
    rows = [row for each in decided for row in _rows(each, words)]
    return Table(HEADER, rows, caption, NOTES, tidy(decided), ("Claim", "Data set"))


def tidy(decided: Sequence[Decided]) -> pd.DataFrame:
    """All verdicts (``COLUMNS``): one row a claim over all datasets, and one a comparison on each."""
    return pd.DataFrame([row for each in decided for row in _tidy(each)], columns=COLUMNS)


def _tidy(decided: Decided) -> Iterator[dict[str, object]]:
    test = decided.claim.test
    said: dict[str, object] = {"claim": decided.name, "says": decided.claim.says, "place": decided.claim.place}
    of_test: dict[str, object] = {"relation": test.relation, "effect_measure": test.effect}
    over_all = {"dataset": EVERYWHERE, "verdict": decided.verdict, "why": decided.why}
    yield said | of_test | over_all | (_numbers(decided.worst) if decided.worst else {})
    for on in decided.datasets:
        for tested in on.tested:
            found = {"verdict": on.verdict, "why": tested.why or on.why}
            yield said | of_test | {"dataset": on.dataset} | found | _numbers(tested)


def _numbers(tested: Tested) -> dict[str, object]:
    sides: dict[str, object] = {"bound": tested.bound, "left": "/".join(tested.left.run), "number": tested.left.number}
    sides["right"] = "/".join(tested.right.run) if tested.right else ""
    if tested.found is None:
        return sides
    lo, hi = tested.found.interval()
    bounds = {"lo": lo, "hi": hi} if np.isfinite([lo, hi]).all() else {}
    return sides | {"effect": tested.found.effect, "seeds": tested.found.seeds, "pairs": tested.found.pairs} | bounds


def _rows(decided: Decided, words: Words) -> Iterator[tuple[str, str, list[Cell]]]:
    group = f"{decided.claim.says} ({decided.claim.place})"
    empty = [Cell() for _ in HEADER[2:]]
    if len(decided.datasets) != 1:
        yield group, EVERYWHERE, [Cell(decided.verdict), *empty, Cell(decided.why or EMPTY)]
    for on in decided.datasets:
        yield group, words.dataset(on.dataset), _cells(decided.claim.test, on, words)


def _cells(test: Predicate, on: OnDataset, words: Words) -> list[Cell]:
    worst = on.worst
    if worst is None or worst.found is None:
        return [Cell(on.verdict), *[Cell() for _ in HEADER[2:]], Cell(on.why or EMPTY)]
    drawn = worst.found.pairs or EMPTY
    shown = [which(test, worst, words), *effect(test, worst.found), claimed(test, worst.bound)]
    return [Cell(text) for text in (on.verdict, *shown, str(worst.found.seeds), drawn, on.why or EMPTY)]


def which(test: Predicate, tested: Tested, words: Words) -> str:
    """The two sides of a comparison and the number compared, in print."""
    left, right = words.side(tested.left), words.side(tested.right)
    number = words.number(tested.left.number)
    if tested.right and tested.right.number != tested.left.number and left == right:
        return f"{left}: {tested.left.number} to {tested.right.number}".replace("_", " ")
    sides = f"{left} to {right}" if right else left
    along = f" by {test.by or 'number of clients'}" if test.effect in FITTED else ""
    return f"{sides}, {number}{along}"


def effect(test: Predicate, found: Estimate) -> tuple[str, str]:
    """An effect and its interval in print."""
    lo, hi = found.interval()
    size = sized(test.effect, found.effect)
    low, high = (sized(test.effect, bound).removeprefix(f"{MEASURES.get(test.effect, '')} ") for bound in (lo, hi))
    if found.pairs == COUNTED and lo == hi:
        return size, "exact"
    return size, f"{low} to {high}" if np.isfinite([lo, hi]).all() else EMPTY


def claimed(test: Predicate, bound: float) -> str:
    """What the effect would have to be, in print."""
    around = "1 " if test.relation == "within" and test.effect == "ratio" else ""
    return f"{around}{SIGNS[test.relation]} {sized(test.effect, bound, signed=False)}"


def sized(effect: str, value: float, signed: bool = True) -> str:
    """An effect of a kind in print."""
    if not np.isfinite(value):
        return EMPTY
    if effect == "relative":
        digits = ".1f" if value == 0 or abs(value) >= SMALL else ".1g"
        return f"{format(100 * value, f'+{digits}')}%" if signed or value else "0"
    text = f"{value:+.3g}" if signed and effect == "difference" else f"{value:.3g}"
    measure = MEASURES.get(effect, "")
    return f"{measure} {text}".strip()
