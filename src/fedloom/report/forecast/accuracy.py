"""Errors across clients that forecast together: pooled, and client by client where there are few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.conditions import HELD_OUT, MASKED
from fedloom.report.captions import budget, told, units
from fedloom.report.cells import Columns, explained, marked
from fedloom.report.layout import Cell, Table
from fedloom.report.names import run_of
from fedloom.report.numbers import UNITS, pick, summarise
from fedloom.report.shown import Shown, runs_in
from fedloom.report.significance import add_tests, against

METRICS = ("mse", "mae", "rmse")
TEST = {"condition": MASKED, "selection": "selected"}
BOTH = {"condition": HELD_OUT, "selection": "last"}
DECIMALS = 2


@dataclass(frozen=True)
class AccuracyOptions:
    """``against``: the run of the paired tests; ``few``: up to so many clients are also printed one by one."""

    against: str
    few: int = 8


def accuracy(shown: Shown, options: AccuracyOptions) -> Table:
    """Errors of all methods on each dataset: pooled, and client by client where there are few; the csv has them all."""
    other = run_of(options.against)
    clients = tuple(str(unit) for unit in shown.metrics["unit"].unique())
    tidy = add_tests(summarise(shown, clients), shown, against(other))
    tidy = tidy[tidy["metric"].isin(METRICS) & (tidy["horizon"] == "all")]
    parts = shares(shown)
    titles = {f"last {parts['test']}": TEST, f"last {parts['held out']}": BOTH}
    rows = []
    for dataset in shown.datasets:
        of = tidy[tidy["dataset"] == dataset]
        counted = of.loc[of["ours_mean"].notna(), "unit"].drop_duplicates()
        each = [unit for unit in counted if unit not in UNITS]
        for unit in ("pooled", *(each if len(each) <= options.few else ())):
            group = f"{shown.label(dataset)}: {'all clients' if unit == 'pooled' else unit.replace('_', ' ')}"
            rows += [(group, *row) for row in _rows(shown, of[of["unit"] == unit], titles)]
    notes = told(
        shown,
        f"Last {parts['test']}: the test part, weights of the round that was best on the {parts['validation']} before. "
        f"Last {parts['held out']}: both, weights of the last round. Training sees the first {parts['train']}. "
        "In the unit of the counts (MSE: its square), over all windows and the whole horizon; mean ± standard "
        "deviation over seeds. Federated methods are ranked.",
        explained([cell for _, _, cells in rows for cell in cells]),
        units(shown),
        "The csv also holds every client, and paired tests over clients and time (seeds averaged) against "
        f"{shown.names.run(other)}.",
        budget(shown),
    )
    header = [(part, shown.names.word(metric)) for part in titles for metric in METRICS]
    return Table(header, rows, shown.caption, notes, tidy, ("Data set: clients", "Method"))


def shares(shown: Shown) -> dict[str, str]:
    """How much of the time each part is, and both that training does not see (``held out``): ``10 %``."""
    found: dict[str, list[str]] = {}
    for dataset in shown.datasets:
        split = {part: end - begin for part, (begin, end) in shown.partitions[dataset]["split"].items()}
        whole = sum(split.values())
        split["held out"] = whole - split["train"]
        for part, steps in split.items():
            found.setdefault(part, []).append(f"{100 * steps / whole:.0f}")
    return {part: f"{'/'.join(dict.fromkeys(each))} %" for part, each in found.items()}


def by_client(shown: Shown, dataset: str, metric: str) -> pd.DataFrame:
    """Return ``metric`` on the test part, mean over seeds, by client (index) and run (columns)."""
    of = pick(shown.metrics, dataset=dataset, metric=metric, horizon="all", **TEST)
    of = of[~of["unit"].isin(UNITS)]
    return of.groupby(["unit", "method", "variant"])["value"].mean().unstack(["method", "variant"]).astype(np.float64)


def _rows(shown: Shown, of: pd.DataFrame, titles: dict[str, dict[str, str]]) -> list[tuple[str, list[Cell]]]:
    columns = Columns()
    ranking = shown.names.ranking(runs_in(of))
    for title, wanted in titles.items():
        for metric in METRICS:
            columns.add(title, metric, marked(pick(of, metric=metric, **wanted), *ranking, DECIMALS))
    return [(shown.names.run(run), columns.row(run)) for run in runs_in(of)]
