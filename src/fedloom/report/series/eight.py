"""The eight tasks side by side: what a run's model does with and without an epoch of learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedloom.report.causal.cells import pick
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.series.cells import (
    HEADLINE,
    REFERENCES,
    cell,
    label,
    mean_over,
    names,
    numbers,
    of_methods,
    protocol_facts,
    published,
    target_label,
)
from fedloom.report.shown import Shown


@dataclass(frozen=True)
class Line:
    """A line of the table: what of which task it shows, and the reference row beside it.

    ``paper`` are the parts of the condition of the published values that are averaged.
    """

    group: str
    title: str
    metric: str
    of: dict[str, str]
    reference: str
    paper: tuple[str, dict[str, str]] | None = None
    decimals: int = 3


LINES = (
    Line("1 Representation", "masked MSE, clients", "mse", HEADLINE, "linear_interpolation"),
    Line("1 Representation", "masked MAE, clients", "mae", HEADLINE, "linear_interpolation"),
    Line("2 Full-shot forecast", "MSE", "mse", {"task": "full_shot"}, "", ("table3", {})),
    Line("2 Full-shot forecast", "MAE", "mae", {"task": "full_shot"}, "", ("table3", {})),
    Line("3 Zero-shot forecast", "MSE", "mse", {"task": "forecast"}, "seasonal_naive", ("table4", {"horizon": "all"})),
    Line("3 Zero-shot forecast", "MAE", "mae", {"task": "forecast"}, "seasonal_naive"),
    Line("4 Short-term forecast", "sMAPE (%)", "smape", {"task": "m4"}, "naive2", None, 2),
    Line("4 Short-term forecast", "MASE", "mase", {"task": "m4"}, "naive2"),
    Line("4 Short-term forecast", "OWA", "owa", {"task": "m4"}, "naive2"),
    Line(
        "5 Imputation, one epoch",
        "MSE",
        "mse",
        {"task": "imputed", "rate": "mean"},
        "",
        ("table_tasks", {"work": "imputed"}),
    ),
    Line(
        "6 Imputation, zero-shot",
        "MSE",
        "mse",
        {"task": "imputation", "rate": "mean"},
        "linear_interpolation",
        ("table_tasks", {"work": "imputation"}),
    ),
    Line("7 Classification", "accuracy, one epoch", "accuracy", {"task": "classification", "epochs": "1"}, "commonest"),
    Line(
        "7 Classification", "accuracy, ten epochs", "accuracy", {"task": "classification", "epochs": "10"}, "commonest"
    ),
    Line("8 Anomaly detection", "F1 of points", "f1", {"task": "anomaly", "adjusted": ""}, "random"),
    Line("8 Anomaly detection", "F1, point-adjusted", "f1", {"task": "anomaly", "adjusted": "point"}, "random"),
)


def tasks(shown: Shown) -> Table:
    """Every task's headline metric by method, mean over held-out sets, with a reference row's and the paper's."""
    frame = numbers(shown, *{line.of["task"] for line in LINES})
    methods = names(shown)
    several = len(shown.datasets) > 1
    header = [("", label(*n)) for n in methods] + [("", "reference"), ("", "which"), ("", "sets"), ("FeDaL", "paper")]
    rows = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        for each in LINES:
            own = of_methods(pick(of, metric=each.metric, horizon="all"), **each.of)
            if own.empty:
                # A task without a held-out set has one null row, which says why, and no further condition.
                own = of_methods(pick(of, metric=each.metric, horizon="all"), task=each.of["task"], target="")
            cells = [_cell(own[(own["method"] == m) & (own["variant"] == v)], each.decimals) for m, v in methods]
            cells += _reference(of, each)
            sets = [target_label(t) for t in dict.fromkeys(own["of_target"]) if t]
            cells.append(Cell(", ".join(sets) if sets else EMPTY))
            cells.append(_paper(shown, each))
            title = f"{each.title}, from {shown.label(dataset)}" if several else each.title
            rows.append((each.group, title, cells))
    notes = (
        "Mean over held-out sets (and horizons or rates); mean over seeds. Tasks 2, 4, 5, 7 and 8 learn for one epoch "
        "on each set, by the same windows, orders and new heads for every method: only the start weights differ. "
        "Forecasts and imputation: errors on data scaled by the training part. Short-term: M4 hourly alone, in the "
        "unit of the series; OWA is against Naive 2, whose is 1. Classification: mean over tokens and channels to "
        "classes; an epoch of small sets is a handful of steps, hence ten epochs beside it. Anomalies: every fourth "
        "token hidden in turn, F1 of single points at the threshold that validation sets; point adjustment can make "
        "random scores look good, so that is not a result. Reference: of the row that the next column names, on the "
        "same windows. Paper: means over its sets, transcribed by another project and not verified, where its sets "
        f"are comparable. {protocol_facts(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def _cell(own: pd.DataFrame, decimals: int) -> Cell:
    """A task on one set has a deviation over seeds; a mean over several has none."""
    return cell(own, decimals) if len(own) == 1 else mean_over(own, decimals)


def _reference(of: pd.DataFrame, each: Line) -> list[Cell]:
    if not each.reference:
        return [Cell(EMPTY), Cell(EMPTY)]
    # The constant guess is the same after any number of epochs.
    condition = {key: value for key, value in each.of.items() if key != "epochs"}
    rows = pick(of, metric=each.metric, horizon="all", prediction=each.reference, **condition)
    values = rows.drop_duplicates(["of_target"])["ours_mean"]
    if not len(values) or values.isna().any():
        return [Cell(EMPTY), Cell(EMPTY)]
    return [Cell(f"{np.mean(values):.{each.decimals}f}"), Cell(REFERENCES[each.reference])]


def _paper(shown: Shown, each: Line) -> Cell:
    if each.paper is None:
        return Cell(EMPTY)
    table, condition = each.paper
    found = published(shown, table, metric=each.metric, method="fedal", **condition)
    found = found[found["dataset"] != "mean"]
    return Cell(f"{found['value'].mean():.{each.decimals}f}*") if len(found) else Cell(EMPTY)
