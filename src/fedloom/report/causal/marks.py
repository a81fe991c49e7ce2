"""What stands behind a method's name where its numbers are not to be read like the others'."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from fedloom.report.names import Run
from fedloom.report.numbers import pick

UNREAD = " (reads no history)"
RULES = {
    UNREAD: "Reads no history: of what was logged before a step it is told the actions alone, so that its errors of "
    "single units cannot fall below what history would explain.",
    " (collapsed": "Collapsed: between the sequences that a method generates, outcomes or contexts vary less than a "
    "tenth as much as between real ones, in standard deviations.",
}


def collapsed(frame: pd.DataFrame) -> dict[Run, str]:
    """Return the mark of every run of which a generator collapsed, with how many of its runs where not all did."""
    found: dict[Run, str] = {}
    for run, of in pick(frame, metric="collapsed", unit="pooled").groupby(["method", "variant"], sort=False):
        runs, lost = int(of["seeds"].sum()), round(float((of["ours_mean"] * of["seeds"]).sum()))
        if lost:
            found[run] = " (collapsed)" if lost == runs else f" (collapsed in {lost} of {runs} runs)"
    return found


def marked_runs(frame: pd.DataFrame) -> dict[Run, str]:
    """Return all marks of every run that has any: of a model without a place for a logged history, of a collapse."""
    unread = pick(frame, metric="reads_history", unit="pooled", ours_mean=0.0)
    found = {(str(method), str(variant)): UNREAD for method, variant in unread[["method", "variant"]].to_numpy()}
    return found | {run: found.get(run, "") + mark for run, mark in collapsed(frame).items()}


def rules(marks: Iterable[str]) -> str:
    """Return what these marks mean."""
    seen = list(marks)
    return " ".join(text for start, text in RULES.items() if any(start in mark for mark in seen))
