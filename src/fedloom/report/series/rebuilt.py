"""How well hidden stretches of the clients' test windows are filled in, and what a method's parts bring to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedloom.report.captions import steps, told
from fedloom.report.cells import DECIMALS, Columns, Grouping, alike, first, marked, published_column
from fedloom.report.figure import MEGABYTE
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.names import Run
from fedloom.report.numbers import ROW, behind, pick, published
from fedloom.report.series.numbers import HEADLINE, numbers, of_methods
from fedloom.report.shown import Shown, of_run, runs_in

MEBIBYTE = 2**20  # the unit of the paper's traffic, which is printed in megabytes here
SENT = "megabytes_up"
INTERPOLATION = "Interpolation"
FILLS = ("linear_interpolation", "last_value", "window_mean")
OWN = "own "
METRICS = ("mse", "mae")


@dataclass(frozen=True)
class ReconstructionOptions:
    """``ranked``: the groups of methods that are ranked together."""

    ranked: tuple[str, ...]


@dataclass(frozen=True)
class AblationOptions:
    """``groups`` of runs (``method`` or ``method/variant``) in order, and the group of the ``rest``."""

    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rest: str = ""


def reconstruction(shown: Shown, options: ReconstructionOptions) -> Table:
    """Masked reconstruction by method and federation, with interpolation beside it and the paper's values."""
    frame = numbers(shown, "reconstruction")
    runs = shown.compared
    groups = Grouping().of(runs, {run: shown.names.group_of(run) for run in runs})
    columns = Columns()
    for dataset in shown.datasets:
        for metric in METRICS:
            of = pick(frame, dataset=dataset, metric=metric, **HEADLINE)
            own = of_methods(of, form="own")
            beside = {f"{OWN}{run}": of_run(own, run) for run in runs_in(own)}
            beside |= {name: alike(pick(of, prediction=name)) for name in FILLS}
            column = marked(of_methods(of, form=""), groups, [options.ranked], beside=beside)
            columns.add(shown.label(dataset), shown.names.word(metric), column)
    sent = {run: _traffic(shown, run) for run in runs}
    columns.add("sent up", "MB a client, round", {run: Cell(f"{n:.3f}" if n else "0") for run, n in sent.items()})
    printed = _published(shown)
    _add_published(shown, columns, printed)
    rows = []
    for run, group in groups.items():
        rows.append((group, shown.names.run(run), columns.row(run)))
        if any(f"{OWN}{run}" in column for column in columns.cells):
            own_label = f"{shown.names.run(run)}, each client's own bias"
            rows.append((group, own_label, columns.row(f"{OWN}{run}")))
    rows += [(INTERPOLATION, shown.names.word(name), columns.row(name)) for name in FILLS]
    notes = told(
        shown,
        "Errors at hidden points of test windows, on data scaled by each series' training part; mean over windows, "
        "then clients, then five rates of hidden tokens (12.5 to 75 %). One mask a window and rate, the same for all "
        "rows. Weights of the round that was best in validation; mean ± standard deviation over seeds. Federated "
        "methods are ranked.",
        columns.explained,
        "Sent up, MB of 10⁶ bytes: what a client of a federation sends in a round, on the first federation that a "
        "method ran on; what a centre collects before training is not counted in this study. The paper's traffic is "
        "converted from MiB. The csv also holds single rates, the last round's weights, and errors in units of what is "
        "visible of a window.",
        steps(shown),
    )
    traffic = [row for run, n in sent.items() for row in _rows(_first_dataset(shown, run), SENT, {run: n})]
    return Table(columns.header, rows, shown.caption, notes, behind(frame, printed, *traffic))


def _published(shown: Shown) -> pd.DataFrame:
    """The paper's errors and traffic, this in megabytes."""
    sent = published(shown, metric="mib")
    sent = sent.assign(metric=SENT, value=sent["value"] * MEBIBYTE / MEGABYTE)
    return pd.concat([published(shown, metric="mse"), sent], ignore_index=True)


def _add_published(shown: Shown, columns: Columns, printed: pd.DataFrame) -> None:
    """The paper's errors by its own federations, and what its methods send."""
    errors = pick(printed, metric="mse")
    for paper in dict.fromkeys(errors["dataset"]):
        title = f"{shown.names.word(paper)}, paper"
        columns.add(title, shown.names.word("mse"), published_column(pick(errors, dataset=paper)))
    columns.add("sent up, paper", "MB", published_column(pick(printed, metric=SENT), 2))


def ablations(shown: Shown, options: AblationOptions) -> Table:
    """A method without its parts and in other forms, each against its own base, and its parts on other methods."""
    frame = numbers(shown, "reconstruction", "forecast")
    runs = shown.compared
    groups = Grouping(options.groups, options.rest).of(runs, {run: shown.names.group_of(run) for run in runs})
    columns = Columns()
    computed: list[dict[str, Any]] = []
    for dataset in shown.datasets:
        of, label = frame[frame["dataset"] == dataset], shown.label(dataset)
        main = of_methods(of, metric="mse", form="", **HEADLINE)
        columns.add(label, shown.names.word("mse"), {run: first(of_run(main, run)) for run in runs_in(main)})
        changes = _changes(main.set_index(["method", "variant"])["ours_mean"])
        columns.add(label, "change", _in_print(changes))
        computed += _rows(dataset, "mse_change", changes)
        unseen = of_methods(of, metric="mse", task="forecast", horizon="all")
        if len(unseen):
            means = unseen.groupby(["method", "variant"])["ours_mean"].agg(lambda v: v.mean(skipna=False)).to_dict()
            cells = {run: Cell(EMPTY if np.isnan(v) else f"{v:.{DECIMALS}f}") for run, v in means.items()}
            columns.add(label, "zero-shot MSE", cells)
            computed += _rows(dataset, "mse_of_sets", means)
    printed = published(shown, metric="mse")
    for paper in dict.fromkeys(printed["dataset"]):
        values, label = pick(printed, dataset=paper), f"{shown.names.word(paper)}, paper"
        columns.add(label, shown.names.word("mse"), published_column(values))
        changes = _changes(values.set_index(["method", "variant"])["value"])
        columns.add(label, "change", _in_print(changes))
        computed += _rows(paper, "mse_change", changes, "published")
    rows = [(group, shown.names.run(run), columns.row(run)) for run, group in groups.items()]
    notes = told(
        shown,
        "MSE: masked reconstruction of the clients' test windows. Change: against the method's base. Zero-shot: mean "
        "over held-out sets and horizons of forecasts without learning from them. In the csv these two are mse_change "
        "and mse_of_sets.",
        steps(shown),
    )
    return Table(columns.header, rows, shown.caption, notes, behind(frame, printed, *computed))


def _changes(values: pd.Series) -> dict[Run, float]:
    """By which share each run is above the base of its method; NaN for a base, and where either is not known."""
    found = {}
    for method, variant in values.index:
        base = np.nan if variant == "base" else values.get((method, "base"), np.nan)
        found[method, variant] = float(values[method, variant] / base - 1)
    return found


def _in_print(changes: dict[Run, float]) -> dict[Run, Cell]:
    return {run: Cell(EMPTY if np.isnan(change) else f"{change:+.1%}") for run, change in changes.items()}


def _rows(dataset: str, metric: str, values: dict[Run, float], column: str = "ours_mean") -> list[dict[str, Any]]:
    """Numbers by run as rows of the csv; none for what is not known."""
    return [
        dict(zip(ROW, (dataset, *run), strict=True)) | {"metric": metric, column: value}
        for run, value in values.items()
        if not np.isnan(value)
    ]


def _first_dataset(shown: Shown, run: Run) -> str:
    return str(of_run(shown.runs, run)["dataset"].iloc[0])


def _traffic(shown: Shown, run: Run) -> float:
    """Megabytes that a client sends up in a round in which it takes part; mean over clients and rounds.

    On one federation: models differ in size between some.
    """
    sent = []
    for folder in shown.folders_of(_first_dataset(shown, run), run).values():
        log = shown.rounds(folder)
        up = log.loc[(log["quantity"] == "bytes_up") & (log["value"] > 0), "value"]
        sent.append(float(up.mean()) if len(up) else 0.0)
    return float(np.mean(sent)) / MEGABYTE
