"""Verdicts as a table of their study: the sentence, the verdict on each dataset, the effect and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.significance import DRAWS
from fedloom.report.claims.intervals import COUNTED, LEAST_OF_STUDENT, LEAST_UNITS, Estimate
from fedloom.report.claims.settings import FITTED, Predicate
from fedloom.report.claims.verdicts import LEAST_DIFFERENCE, Decided, OnDataset, Tested
from fedloom.report.claims.words import Words
from fedloom.report.layout import EMPTY, Cell, Table

COLUMNS = [
    *["claim", "says", "place", "dataset", "verdict", "why", "relation", "bound", "effect_measure"],
    *["left", "right", "number", "effect", "lo", "hi", "seeds", "pairs"],
]
EVERYWHERE = "all"

WORST = "Worst"
HEADER = [
    ("", "verdict"),
    *((WORST, column) for column in ("which", "effect", "95 % interval", "claimed")),
    *(("", column) for column in ("seeds", "drawn", "note")),
]

NOTES = (
    "A claim holds here where the interval of every comparison lies on the claimed side, on every dataset; it does not "
    "hold where one lies beyond it (at a level that the comparisons of a dataset share). Of a claimed difference in "
    f"per cent, less than {LEAST_DIFFERENCE:.1%} counts as none: an interval within it shows no difference. Otherwise, "
    f"and where runs are missing, it is not decided. Intervals: {DRAWS:,} draws of clients (or other units) and of "
    "blocks of test time, the same for both sides, and of seeds where there are several; those that evaluation kept, "
    f'where it did ("clients"); of fewer than {LEAST_UNITS} units, or seeds alone, Student\'s; of fewer than '
    f"{LEAST_OF_STUDENT} none. Units are clients that are judged, held-out sets, draws or trials. One seed says "
    "nothing about chance in training. Counted: nothing was sampled. Worst: the comparison that speaks most against "
    "the claim. Effects: (left - right) / right in per cent where not said otherwise. A bound in print is the "
    "dataset's own, or else the one that asks least."
)

SIGNS = {"less": "<", "ordered": "<", "at_most": "≤", "greater": ">", "at_least": "≥", "within": "±"}
SMALL = 0.0005
"""Smaller shares would be printed as 0.0 %."""

MEASURES = {"slope": ("slope ", ".3g", ""), "intercept": ("", ".3g", " at 0"), "r2": ("R² ", ".4f", "")}
MEASURES |= {"power": ("exponent ", ".3f", "")}
"""What stands before a number of a fitted line, how it is printed, and what stands behind it."""


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
        return f"{left}: {number} to {words.number(tested.right.number)}"
    sides = f"{left} to {right}" if right else left
    along = f" by {test.by or 'number of clients'}" if test.effect in FITTED else ""
    return f"{sides}, {number}{along}"


def effect(test: Predicate, found: Estimate) -> tuple[str, str]:
    """An effect and its interval in print."""
    lo, hi = found.interval()
    size = sized(test.effect, found.effect)
    if found.pairs == COUNTED and lo == hi:
        return size, "exact"
    return size, interval(test.effect, lo, hi)


def interval(effect: str, lo: float, hi: float) -> str:
    """The interval of an effect of a kind in print."""
    if not np.isfinite([lo, hi]).all():
        return EMPTY
    return " to ".join(dict.fromkeys(_number(effect, bound) for bound in (lo, hi)))


def claimed(test: Predicate, bound: float) -> str:
    """What the effect would have to be, in print."""
    around = "1 " if test.relation == "within" and test.effect == "ratio" else ""
    before, _, after = MEASURES.get(test.effect, ("", "", ""))
    value = f"{bound:g}" if test.effect in FITTED else _number(test.effect, bound, signed=False)
    return f"{before}{around}{SIGNS[test.relation]} {value}{after}"


def sized(effect: str, value: float) -> str:
    """An effect of a kind in print."""
    if not np.isfinite(value):
        return EMPTY
    before, _, after = MEASURES.get(effect, ("", "", ""))
    return f"{before}{_number(effect, value)}{after}"


def _number(effect: str, value: float, signed: bool = True) -> str:
    if effect in MEASURES:
        text = format(value, MEASURES[effect][1])
        return f"> {0.9999}" if effect == "r2" and value < 1 and float(text) == 1 else text
    if effect == "relative":
        digits = ".1f" if value == 0 or abs(value) >= SMALL else ".1g"
        sign = "+" if signed or value else ""
        return f"{format(100 * value, f'{sign}{digits}')}%" if signed or value else "0"
    return f"{value:+.3g}" if signed and effect == "difference" else f"{value:.3g}"
