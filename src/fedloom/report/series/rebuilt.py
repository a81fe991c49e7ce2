"""How well hidden stretches of the clients' test windows are filled in, and what a method's parts bring to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fedloom.report.captions import steps, told
from fedloom.report.cells import DECIMALS, Columns, Grouping, alike, first, marked, published_column
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.names import Run
from fedloom.report.numbers import pick, published
from fedloom.report.series.numbers import HEADLINE, numbers, of_methods
from fedloom.report.shown import Shown, of_run, runs_in

MEBIBYTE = 2**20
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
    columns.add("sent up", "MiB a client, round", {run: Cell(_traffic(shown, run)) for run in runs})
    _add_published(shown, columns)
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
        "Sent up: on the first federation that a method ran on. The csv also holds single rates, the last round's "
        "weights, and errors in units of what is visible of a window.",
        steps(shown),
    )
    return Table(columns.header, rows, shown.caption, notes, frame)


def _add_published(shown: Shown, columns: Columns) -> None:
    """The paper's errors by its own federations, and what its methods send."""
    printed = published(shown, metric="mse")
    for paper in dict.fromkeys(printed["dataset"]):
        title = f"{shown.names.word(paper)}, paper"
        columns.add(title, shown.names.word("mse"), published_column(pick(printed, dataset=paper)))
    columns.add("sent up, paper", "MiB", published_column(published(shown, metric="mib"), 2))


def ablations(shown: Shown, options: AblationOptions) -> Table:
    """A method without its parts and in other forms, each against its own base, and its parts on other methods."""
    frame = numbers(shown, "reconstruction", "forecast")
    runs = shown.compared
    groups = Grouping(options.groups, options.rest).of(runs, {run: shown.names.group_of(run) for run in runs})
    columns = Columns()
    for dataset in shown.datasets:
        of, label = frame[frame["dataset"] == dataset], shown.label(dataset)
        main = of_methods(of, metric="mse", form="", **HEADLINE)
        columns.add(label, shown.names.word("mse"), {run: first(of_run(main, run)) for run in runs_in(main)})
        columns.add(label, "change", _changes(main.set_index(["method", "variant"])["ours_mean"]))
        unseen = of_methods(of, metric="mse", task="forecast", horizon="all")
        if len(unseen):
            means = unseen.groupby(["method", "variant"])["ours_mean"].agg(lambda v: v.mean(skipna=False))
            cells = {run: Cell(EMPTY if np.isnan(v) else f"{v:.{DECIMALS}f}") for run, v in means.items()}
            columns.add(label, "zero-shot MSE", cells)
    printed = published(shown, metric="mse")
    for paper in dict.fromkeys(printed["dataset"]):
        values, label = pick(printed, dataset=paper), f"{shown.names.word(paper)}, paper"
        columns.add(label, shown.names.word("mse"), published_column(values))
        columns.add(label, "change", _changes(values.set_index(["method", "variant"])["value"]))
    rows = [(group, shown.names.run(run), columns.row(run)) for run, group in groups.items()]
    notes = told(
        shown,
        "MSE: masked reconstruction of the clients' test windows. Change: against the method's base. Zero-shot: mean "
        "over held-out sets and horizons of forecasts without learning from them.",
        steps(shown),
    )
    return Table(columns.header, rows, shown.caption, notes, frame)


def _changes(values: pd.Series) -> dict[Run, Cell]:
    """By how many per cent each run is above the base of its method."""
    found = {}
    for method, variant in values.index:
        value, base = values[method, variant], values.get((method, "base"), np.nan)
        known = variant != "base" and not np.isnan(value) and not np.isnan(base)
        found[method, variant] = Cell(f"{value / base - 1:+.1%}" if known else EMPTY)
    return found


def _traffic(shown: Shown, run: Run) -> str:
    """Mebibytes that a client sends up in a round in which it takes part; mean over clients and rounds.

    On one federation: models differ in size between some.
    """
    dataset = of_run(shown.runs, run)["dataset"].iloc[0]
    sent = []
    for folder in shown.folders_of(dataset, run).values():
        log = shown.rounds(folder)
        up = log.loc[(log["quantity"] == "bytes_up") & (log["value"] > 0), "value"]
        sent.append(float(up.mean()) if len(up) else 0.0)
    return f"{np.mean(sent) / MEBIBYTE:.3f}" if any(sent) else "0"
