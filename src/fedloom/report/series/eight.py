"""The eight tasks side by side: what a run's model does with and without an epoch of learning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedloom.report.captions import steps, told
from fedloom.report.cells import first, mean_over, transcribed
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import behind, pick, published
from fedloom.report.series.numbers import HEADLINE, numbers, of_methods
from fedloom.report.shown import Shown, of_run


@dataclass(frozen=True)
class Line:
    """A line of the table: what of which task it shows, and the reference row beside it.

    ``paper`` are the parts of the condition of the published values that are averaged, where its sets are comparable.
    """

    group: str
    title: str
    metric: str
    of: dict[str, str]
    reference: str = ""
    paper: dict[str, str] | None = None
    decimals: int = 3


@dataclass(frozen=True)
class TaskOptions:
    """``published``: task -> the paper's table that prints it, of which the mean over sets is shown."""

    published: dict[str, str] = field(default_factory=dict)


REPRESENTED, FULL, ZERO, SHORT, FILLED_AFTER, FILLED, CLASSIFIED, ANOMALIES = (
    "1 Representation",
    "2 Full-shot forecast",
    "3 Zero-shot forecast",
    "4 Short-term forecast",
    "5 Imputation, one epoch",
    "6 Imputation, zero-shot",
    "7 Classification",
    "8 Anomaly detection",
)
ONE, TEN = ({"task": "classification", "epochs": epochs} for epochs in ("1", "10"))
POINTS, ADJUSTED = ({"task": "anomaly", "adjusted": how} for how in ("", "point"))
IMPUTED, IMPUTATION = ({"task": task, "rate": "mean"} for task in ("imputed", "imputation"))

LINES = (
    Line(REPRESENTED, "masked MSE, clients", "mse", HEADLINE, "linear_interpolation"),
    Line(REPRESENTED, "masked MAE, clients", "mae", HEADLINE, "linear_interpolation"),
    Line(FULL, "MSE", "mse", {"task": "full_shot"}, paper={}),
    Line(FULL, "MAE", "mae", {"task": "full_shot"}, paper={}),
    Line(ZERO, "MSE", "mse", {"task": "forecast"}, "seasonal_naive", {"horizon": "all"}),
    Line(ZERO, "MAE", "mae", {"task": "forecast"}, "seasonal_naive"),
    Line(SHORT, "sMAPE (%)", "smape", {"task": "m4"}, "naive2", decimals=2),
    Line(SHORT, "MASE", "mase", {"task": "m4"}, "naive2"),
    Line(SHORT, "OWA", "owa", {"task": "m4"}, "naive2"),
    Line(FILLED_AFTER, "MSE", "mse", IMPUTED, paper={"work": "imputed"}),
    Line(FILLED, "MSE", "mse", IMPUTATION, "linear_interpolation", {"work": "imputation"}),
    Line(CLASSIFIED, "accuracy, one epoch", "accuracy", ONE, "commonest"),
    Line(CLASSIFIED, "accuracy, ten epochs", "accuracy", TEN, "commonest"),
    Line(ANOMALIES, "F1 of points", "f1", POINTS, "random"),
    Line(ANOMALIES, "F1, point-adjusted", "f1", ADJUSTED, "random"),
)


def tasks(shown: Shown, options: TaskOptions) -> Table:
    """Every task's headline metric by method, mean over held-out sets, with a reference row's and the paper's."""
    frame = numbers(shown, *{line.of["task"] for line in LINES})
    runs = shown.compared
    several = len(shown.datasets) > 1
    header = [("", shown.names.run(run)) for run in runs] + [("", "reference"), ("", "which"), ("", "sets")]
    header.append((shown.names.run(shown.ours), "paper"))
    rows = []
    computed: list[dict[str, Any]] = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        for each in LINES:
            own = of_methods(pick(of, metric=each.metric, horizon="all"), **each.of)
            if own.empty:
                # A task without a held-out set has one null row, which says why, and no further condition.
                own = of_methods(pick(of, metric=each.metric, horizon="all"), task=each.of["task"], target="")
            sets = [shown.names.word(target) for target in dict.fromkeys(own["of_target"]) if target]
            cells = [_cell(of_run(own, run), each.decimals) for run in runs]
            computed += _means(own, dataset, each)
            cells += [*_reference(shown, of, each), Cell(", ".join(sets)) if sets else Cell()]
            title = f"{each.title}, from {shown.label(dataset)}" if several else each.title
            rows.append((each.group, title, [*cells, _paper(shown, each, options)]))
    in_print = [_in_print(shown, each, options) for each in LINES]
    notes = told(
        shown,
        "Mean over held-out sets (and horizons or rates); mean over seeds. Tasks 2, 4, 5, 7 and 8 learn for one epoch "
        "on each set, by the same windows, orders and new heads for every method: only the start weights differ. "
        "Forecasts and imputation: errors on data scaled by the training part. Short-term: M4 hourly alone, in the "
        "unit of the series; OWA is against Naive 2, whose is 1. Classification: mean over tokens and channels to "
        "classes; an epoch of small sets is a handful of steps, hence ten epochs beside it. Anomalies: every fourth "
        "token hidden in turn, F1 of single points at the threshold that validation sets; point adjustment can make "
        "random scores look good, so that is not a result. Reference: of the row that the next column names, on the "
        "same windows.",
        transcribed(cell for _, _, cells in rows for cell in cells),
        steps(shown),
    )
    numbers_behind = behind(frame, pd.concat(in_print, ignore_index=True).drop_duplicates(), *computed)
    return Table(header, rows, shown.caption, notes, numbers_behind, ("Task", "Metric"))


def _cell(own: pd.DataFrame, decimals: int) -> Cell:
    """A task on one set has a deviation over seeds; a mean over several has none."""
    return first(own, decimals) if len(own) == 1 else mean_over(own, decimals)


def _reference(shown: Shown, of: pd.DataFrame, each: Line) -> list[Cell]:
    """The value and the name of a reference row."""
    # The constant guess is the same after any number of epochs.
    wanted = {key: value for key, value in each.of.items() if key != "epochs"}
    rows = pick(of, metric=each.metric, horizon="all", prediction=each.reference, **wanted)
    values = rows.drop_duplicates(["of_target"])["ours_mean"]
    if not each.reference or not len(values) or values.isna().any():
        return [Cell(), Cell()]
    return [Cell(f"{np.mean(values):.{each.decimals}f}"), Cell(shown.names.word(each.reference))]


def _means(own: pd.DataFrame, dataset: str, each: Line) -> list[dict[str, Any]]:
    """What is printed of runs on several sets, as rows of the csv, whose set is called the mean."""
    means = own.groupby(["method", "variant"], sort=False)["ours_mean"].agg(lambda v: v.mean(skipna=False)).dropna()
    said = {f"of_{key}": value for key, value in (each.of | {"target": "mean"}).items()} | {"metric": each.metric}
    several = own["of_target"].nunique() > 1
    return [
        {"dataset": dataset, "method": run[0], "variant": run[1], "horizon": "all", "ours_mean": mean} | said
        for run, mean in (means.items() if several else ())
    ]


def _in_print(shown: Shown, each: Line, options: TaskOptions) -> pd.DataFrame:
    """The published values by set, of which a line shows the mean."""
    table = options.published.get(each.of["task"])
    if each.paper is None or table is None:
        return published(shown).iloc[:0]
    found = published(shown, table=table, metric=each.metric, method=shown.foremost, **each.paper)
    return found[found["dataset"] != "mean"]


def _paper(shown: Shown, each: Line, options: TaskOptions) -> Cell:
    """The published mean over sets, which nobody verified."""
    found = _in_print(shown, each, options)
    return Cell(f"{found['value'].mean():.{each.decimals}f}*") if len(found) else Cell()
