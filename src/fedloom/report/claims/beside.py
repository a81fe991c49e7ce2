"""Rows that no method makes, such as constant forecasts, beside a claim that a method's error is the lowest."""

from __future__ import annotations

from fedloom.report.claims.evidence import Absent, Evidence
from fedloom.report.claims.settings import Predicate
from fedloom.report.claims.words import Words
from fedloom.report.names import run_of

LOW = ("less", "at_most", "ordered")
COMPARING = ("relative", "difference", "ratio")


def lower_beside(test: Predicate, dataset: str, words: Words, evidence: Evidence) -> str:
    """Say which such rows are lower than the left side in a number of the claim; empty where none is.

    Nothing is said where the claim itself is about one of them (``against``).
    """
    if test.relation not in LOW or test.effect not in COMPARING or test.against:
        return ""
    run, lower = run_of(test.left[0]), []
    for name in test.of:
        quantity = words.numbers[name]
        if not quantity.metric or "prediction" in quantity.where:
            continue
        try:
            own = evidence.sample(dataset, run, quantity).value
        except Absent:
            continue
        for prediction in evidence.predictions(dataset, run, quantity):
            value = evidence.sample(dataset, run, quantity, {"prediction": prediction}).value
            if value < own:
                lower.append(
                    f"{words.names.word(prediction)} ({words.number(name)} {round(value, 9):.3g} against {own:.3g})"
                )
    return f"not methods, and lower still: {', '.join(lower)}" if lower else ""
