"""Errors of effects and policy values against the truth, beside what needs no model."""

from __future__ import annotations

import pandas as pd

from fedloom.report.causal.cells import DECIMALS, Column, Method, first, marked, methods, pick, published, tidy
from fedloom.report.labels import method_group, run_label
from fedloom.report.layout import Cell, Table
from fedloom.report.shown import Shown

NEEDS_NO_MODEL = "Without a model"
REFERENCES = {
    "constant_effect": "True mean effect for everyone",
    "zero_effect": "No effect",
    "naive": "Unadjusted contrast of the log",
    "oracle": "True mechanism, as many draws as a model",
}
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
    frame = tidy(shown)
    datasets, names = _known(shown, frame)
    groups = {name: method_group(name[0]) for name in names}
    header: list[tuple[str, str]] = []
    columns: list[Column] = []
    for dataset in datasets:
        for title, series, paper in COLUMNS:
            header.append((shown.label(dataset), title))
            columns.append(_column(frame, dataset, series, groups))
            printed = published(shown, dataset, paper)
            if printed:
                header.append((shown.label(dataset), f"{title.removeprefix('root ')}, paper"))
                columns.append(printed)
    rows = [(groups[n], run_label(*n), [column.get(n, Cell()) for column in columns]) for n in names]
    rows += [
        (NEEDS_NO_MODEL, label, [column.get(name, Cell()) for column in columns]) for name, label in REFERENCES.items()
    ]
    return Table(header, rows, shown.caption, f"{_notes(frame)} {shown.facts}", frame)


def heterogeneity(shown: Shown) -> Table:
    """Set the errors of ``effects`` on datasets that differ in how clients differ one below the other."""
    frame = tidy(shown)
    datasets, names = _known(shown, frame)
    groups = {name: method_group(name[0]) for name in names}
    header = [("", title) for title, *_ in COLUMNS]
    labels: dict[Method | str, str] = {name: run_label(*name) for name in names}
    rows = []
    for dataset in datasets:
        columns = [_column(frame, dataset, series, groups) for _, series, _ in COLUMNS]
        for name, label in (labels | REFERENCES).items():
            if any(name in column for column in columns):
                rows.append((_dealt(shown, dataset), label, [column.get(name, Cell()) for column in columns]))
    return Table(header, rows, shown.caption, f"{_notes(frame)} {shown.facts}", frame)


def _dealt(shown: Shown, dataset: str) -> str:
    """The dataset's name, with how it was dealt to clients."""
    deal = shown.partitions.get(dataset)
    if deal is None:
        return shown.label(dataset)
    by = "site" if deal["label"] == "given" else "tenth of mean outcome"
    return f"{shown.label(dataset)} (by {by}, α = {deal['alpha']:g})"


def _known(shown: Shown, frame: pd.DataFrame) -> tuple[list[str], list[Method]]:
    """Datasets whose truth is known, and the methods that were judged on them."""
    known = frame[frame["metric"] == "pehe_root"]
    return [name for name in shown.datasets if name in set(known["dataset"])], methods(known)


def _column(frame: pd.DataFrame, dataset: str, series: dict[str, str], groups: dict[Method, str]) -> Column:
    """One number of a dataset: a cell a method, and one for each prediction that needs no model."""
    decimals = SQUARES if series["metric"] == "pehe_mse" else DECIMALS
    of = pick(frame[frame["dataset"] == dataset], unit="pooled", **series)
    column = marked(pick(of, prediction=""), groups, [set(groups.values())], decimals)
    return column | {reference: first(pick(of, prediction=reference), decimals) for reference in REFERENCES}


def _notes(frame: pd.DataFrame) -> str:
    errors = pick(frame, metric="pehe_root_se", scope="window")["ours_mean"].dropna()
    floor = (
        f" Simulated draws leave a standard error of at most {errors.max():.4f} in root PEHE." if len(errors) else ""
    )
    return (
        "Window: Always against Never from the middle of a sequence to its end, history before it as logged; step: on "
        "against off at one step of a logged history. Root PEHE is the root of the mean squared error of units' "
        "effects and cannot be below the error of the mean effect; the published PEHE is below it in some rows "
        "and likely a mean square. Value error: mean over the four policies. Best in bold, second underlined. "
        f"Mean ± standard deviation over seeds.{floor}"
    )
