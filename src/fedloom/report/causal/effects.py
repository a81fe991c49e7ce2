"""Errors of effects and policy values against the truth, beside what needs no model."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedloom.report.captions import told
from fedloom.report.causal.intervals import EXPLAINED, bracketed, over_seeds
from fedloom.report.causal.marks import marked_runs, rules
from fedloom.report.cells import DECIMALS, Column, Columns, explained, marked, published_column
from fedloom.report.layout import Cell, Table
from fedloom.report.names import Run
from fedloom.report.numbers import pick, published, tidy
from fedloom.report.shown import Shown, runs_in

Rows = list[tuple[str, str, list[Cell]]]

NEEDS_NO_MODEL = "Without a model"
REFERENCES = ("constant_effect", "zero_effect", "naive", "oracle")
SQUARES = DECIMALS + 1
COLUMNS = (
    ("root PEHE", {"metric": "pehe_root", "scope": "window"}, ("pehe", "pehe_root")),
    ("PEHE (mean square)", {"metric": "pehe_mse", "scope": "window"}, ()),
    ("ATE error", {"metric": "ate_error", "scope": "window"}, ("ate_error", "ate")),
    ("value error", {"metric": "value_error", "scope": "window", "policy": "mean", "estimator": ""}, ("value_error",)),
    ("root PEHE, step", {"metric": "pehe_root", "scope": "step"}, ()),
    ("ATE error, step", {"metric": "ate_error", "scope": "step"}, ()),
)
"""Header, the number, and the names that a published value of it may have."""


def effects(shown: Shown) -> Table:
    """Set methods against the truth of generated datasets: PEHE, ATE error, value error (lower is better)."""
    frame = over_seeds(shown, tidy(shown))
    datasets, groups = _judged(shown, frame)
    columns = Columns()
    for dataset in datasets:
        for title, wanted, paper in COLUMNS:
            columns.add(shown.label(dataset), title, _column(shown, frame, dataset, wanted))
            printed = published(shown, dataset=dataset)
            known = [metric for metric in paper if metric in set(printed["metric"])]
            if known:
                cells = published_column(printed[printed["metric"] == known[0]])
                columns.add(shown.label(dataset), f"{title.removeprefix('root ')}, paper", cells)
    marks = marked_runs(frame[frame["dataset"].isin(datasets)])
    rows: Rows = [(group, shown.names.run(run) + marks.get(run, ""), columns.row(run)) for run, group in groups.items()]
    rows += [(NEEDS_NO_MODEL, shown.names.word(name), columns.row(name)) for name in REFERENCES]
    return Table(columns.header, rows, shown.caption, _notes(shown, frame, rows, rules(marks.values())), frame)


def heterogeneity(shown: Shown) -> Table:
    """Set the errors of ``effects`` on datasets that differ in how clients differ one below the other."""
    frame = over_seeds(shown, tidy(shown))
    datasets, groups = _judged(shown, frame)
    rows: Rows = []
    seen: list[str] = []
    for dataset in datasets:
        marks = marked_runs(frame[frame["dataset"] == dataset])
        seen += marks.values()
        labels: dict[Any, str] = {run: shown.names.run(run) + marks.get(run, "") for run in groups}
        labels |= {name: shown.names.word(name) for name in REFERENCES}
        columns = Columns()
        for title, wanted, _ in COLUMNS:
            columns.add("", title, _column(shown, frame, dataset, wanted))
        there = {key for column in columns.cells for key in column}
        rows += [(_dealt(shown, dataset), label, columns.row(key)) for key, label in labels.items() if key in there]
    header = [("", title) for title, *_ in COLUMNS]
    return Table(header, rows, shown.caption, _notes(shown, frame, rows, rules(seen)), frame, ("Data set", "Method"))


def _dealt(shown: Shown, dataset: str) -> str:
    """The dataset's name, with how it was dealt to clients."""
    deal = shown.partitions.get(dataset)
    if deal is None:
        return shown.label(dataset)
    by = "site" if deal["label"] == "given" else "tenth of mean outcome"
    return f"{shown.label(dataset)} (by {by}, α = {deal['alpha']:g})"


def _judged(shown: Shown, frame: pd.DataFrame) -> tuple[list[str], dict[Run, str]]:
    """Datasets whose truth is known, and the runs that were judged on them with their groups."""
    known = frame[frame["metric"] == "pehe_root"]
    runs = shown.foremost_first(runs_in(known))
    judged = set(known["dataset"])
    groups = {run: shown.names.group_of(run) for run in runs}
    order = list(dict.fromkeys(groups.values()))
    together = {run: groups[run] for run in sorted(groups, key=lambda run: order.index(groups[run]))}
    return [name for name in shown.datasets if name in judged], together


def _column(shown: Shown, frame: pd.DataFrame, dataset: str, wanted: dict[str, str]) -> Column:
    """One number of a dataset: a cell a method, and one for each prediction that needs no model."""
    decimals = SQUARES if wanted["metric"] == "pehe_mse" else DECIMALS
    of = pick(frame[frame["dataset"] == dataset], unit="pooled", **wanted)
    mine = pick(of, prediction="")
    beside = {name: pick(of, prediction=name) for name in REFERENCES}
    return bracketed(marked(mine, *shown.names.ranking(runs_in(mine)), decimals, beside=beside), mine, decimals)


def _notes(shown: Shown, frame: pd.DataFrame, rows: Rows, *sentences: str) -> str:
    errors = pick(frame, metric="pehe_root_se", scope="window")["ours_mean"].dropna()
    floor = f"Simulated draws leave a standard error of at most {errors.max():.4f} in root PEHE." if len(errors) else ""
    return told(
        shown,
        "Window: Always against Never from the middle of a sequence to its end, history before it as logged; step: on "
        "against off at one step of a logged history. Root PEHE is the root of the mean squared error of units' "
        "effects and cannot be below the error of the mean effect. Value error: mean over the four policies. Mean ± "
        "standard deviation over seeds. Federated methods are ranked.",
        explained([cell for _, _, cells in rows for cell in cells]),
        EXPLAINED,
        floor,
        *sentences,
    )
