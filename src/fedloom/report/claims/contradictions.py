"""Printed numbers that cannot all be true, shown by computation from the references alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fedloom.errors import InputError
from fedloom.report.claims.settings import FROM_TO, Contradiction, Printed
from fedloom.report.claims.words import Words
from fedloom.report.layout import Cell, Table
from fedloom.report.references import COLUMNS, matching

KEYS = COLUMNS[:-1]
TIDY = ["contradiction", "says", "place", *KEYS, "left", "relation", "right", "difference", "verdict"]

SIGNS = {"equal": "=", "differs": "≠", "less": "<", "at_most": "≤", "at_least": "≥"}
HEADER = [("", "printed or computed"), ("", "ought to be"), ("", "than or to"), ("", "difference"), ("", "verdict")]
AGREE, TIE, CONTRADICT = "agrees", "tie", "contradicts"


def contradictions(found: Mapping[str, Contradiction], published: pd.DataFrame) -> pd.DataFrame:
    """Compare what ought to agree (``TIDY``): one row a comparison, also where print does agree."""
    rows = [row for name, each in found.items() for row in _compared(name, each, published)]
    return pd.DataFrame(rows, columns=TIDY)


def contradiction_table(frame: pd.DataFrame, words: Words, caption: str) -> Table:
    """Set out comparisons of printed numbers (see ``contradictions``)."""
    rows = []
    for row in frame.itertuples():
        runs = words.names.run((row.method, row.variant or "base")) if row.method else ""
        parts = [words.labels.get(row.dataset, row.dataset), runs, words.names.word(row.metric)]
        label = ", ".join(part for part in parts if part) or "all"
        numbers = [
            _printed(row.left),
            SIGNS[row.relation],
            _printed(row.right),
            _printed(row.difference, "+"),
            row.verdict,
        ]
        rows.append((f"{row.says} ({row.place})", label, [Cell(text) for text in numbers]))
    wrong, ties = (int((frame["verdict"] == verdict).sum()) for verdict in (CONTRADICT, TIE))
    tied = f", {ties} {'ties' if ties > 1 else 'tie'}: equal as far as print goes" if ties else ""
    notes = (
        f"{wrong} of {len(frame)} comparisons contradict each other{tied}. All numbers are the paper's, from the "
        "references; means, changes and differences are computed from them. Nothing here depends on a run."
    )
    return Table(HEADER, rows, caption, notes, frame, ("What ought to hold", "Where"))


def _compared(name: str, asked: Contradiction, published: pd.DataFrame) -> list[dict[str, Any]]:
    each = list(asked.each)
    rows = matching(published, asked.left.of)
    places = rows[each].drop_duplicates().to_dict("records") if each else [{}]
    made = []
    for place in places:
        at = {str(column): re.escape(str(value)) for column, value in place.items()}
        try:
            left = _value(replace(asked.left, of=asked.left.of | at), at, published)
            right = _value(asked.right, at, published)
        except LookupError:
            continue
        unit = 10.0**-asked.digits / 2 + 1e-9  # what is printed alike may differ by float error alone
        near = abs(left - right) <= unit
        agrees = {
            "equal": near,
            "differs": abs(left - right) > 1e-9,
            "less": left < right - 1e-9,
            "at_most": left <= right + 1e-9,
            "at_least": left >= right - 1e-9,
        }[asked.relation]
        said = {"contradiction": name, "says": asked.says, "place": asked.place, **dict.fromkeys(KEYS, ""), **place}
        numbers = {"left": left, "relation": asked.relation, "right": right, "difference": round(left - right, 9)}
        made.append(said | numbers | {"verdict": AGREE if agrees else TIE if near else CONTRADICT})
    if not made:
        raise InputError(f"contradiction {name}: expected printed values on both sides, found none that match")
    return made


def _value(side: Printed, at: Mapping[str, str], published: pd.DataFrame) -> float:
    if side.how == "constant":
        return side.constant
    # What a side says itself goes before the place under comparison.
    rows = matching(published, {**at, **side.of})
    if rows.empty:
        raise LookupError
    if side.how in FROM_TO:
        further = matching(published, {**at, **side.to})
        free = [column for column in KEYS if column not in side.of.keys() | side.to.keys()]
        both = rows.merge(further, on=free, suffixes=("_of", "_to")) if free else rows.merge(further, how="cross")
        if both.empty:
            raise LookupError
        change = both["value_to"] - both["value_of"]
        return float((change / both["value_of"] if side.how == "change" else change).mean())
    values = rows["value"]
    return float({"mean": values.mean(), "least": values.min(), "largest": values.max()}[side.how])


def _printed(value: float, sign: str = "") -> str:
    """A number without the float error of a difference between printed ones."""
    return format(round(value, 9) + 0.0, f"{sign}.4g")
