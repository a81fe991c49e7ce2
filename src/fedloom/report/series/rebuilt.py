"""Table 1 and the ablations: how well hidden stretches of the clients' test windows are filled in."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.report.causal.cells import Column, marked, pick
from fedloom.report.forecast.comparison import explained
from fedloom.report.labels import CENTRALISED, FEDERATED, REFERENCE, SERIES, method_group
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.series.cells import (
    DECIMALS,
    HEADLINE,
    REFERENCES,
    Method,
    cell,
    label,
    names,
    numbers,
    of_methods,
    protocol_facts,
    published,
    published_cell,
)
from fedloom.report.shown import Shown

MEBIBYTE = 2**20
INTERPOLATION = "Interpolation"
PAPER_SETS = {"utsd-h1": "UTSD-H1", "utsd-h2": "UTSD-H2", "utsd": "UTSD", "ctsd": "CTSD"}
FILLS = ("linear_interpolation", "last_value", "window_mean")
OWN = "own"
METRICS = {"mse": "MSE", "mae": "MAE"}


def reconstruction(shown: Shown) -> Table:
    """Masked reconstruction by method and federation, with interpolation beside it and the paper's values."""
    frame = numbers(shown, "reconstruction")
    methods = names(shown)
    groups = {name: method_group(name[0]) for name in methods}
    header: list[tuple[str, str]] = []
    columns: list[Column] = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        for metric, title in METRICS.items():
            main = of_methods(of, metric=metric, form="", **HEADLINE)
            found = marked(main, groups, [{*FEDERATED, SERIES}])
            own = of_methods(of, metric=metric, form="own", method="fedal", variant="base", **HEADLINE)
            found[OWN] = cell(own)
            for reference in FILLS:
                rows = pick(of, metric=metric, prediction=reference, **HEADLINE)
                found[reference] = cell(rows.head(1).assign(ours_sd=np.nan))
            header.append((shown.label(dataset), title))
            columns.append(found)
    header.append(("sent up", "MiB a client, round"))
    columns.append({n: Cell(_traffic(shown, n)) for n in methods})
    for paper, title in PAPER_SETS.items():
        values = published(shown, "table1", dataset=paper, metric="mse")
        if len(values):
            header.append((f"{title}, paper", "MSE"))
            columns.append({(m, v): published_cell(of) for (m, v), of in values.groupby(["method", "variant"])})
    size = published(shown, "table1", metric="mib")
    header.append(("sent up, paper", "MiB"))
    columns.append({(m, v): published_cell(of, 2) for (m, v), of in size.groupby(["method", "variant"])})
    order = [SERIES, *FEDERATED, CENTRALISED, REFERENCE]
    rows = []
    for name in sorted(methods, key=lambda n: order.index(groups[n]) if groups[n] in order else len(order)):
        rows.append((groups[name], label(*name), [column.get(name, Cell()) for column in columns]))
        if name == ("fedal", "base"):
            own_label = f"{label(*name)}, each client's own bias"
            rows.append((groups[name], own_label, [column.get(OWN, Cell()) for column in columns]))
    for reference in FILLS:
        cells = [column.get(reference, Cell()) for column in columns]
        rows.append((INTERPOLATION, REFERENCES[reference], cells))
    notes = (
        "Errors at hidden points of test windows, on data scaled by each series' training part; mean over windows, "
        "then clients, then five rates of hidden tokens (12.5 to 75 %). One mask a window and rate, the same for all "
        "rows. Weights of the round that was best in validation; mean ± standard deviation over seeds. Federated "
        f"methods are ranked. {explained([cell for _, _, cells in rows for cell in cells])} Sent up: on the first "
        "federation that a method ran on. The paper's federations (UTSD, CTSD) are other data and its backbone is "
        "28.4 M parameters: compare order and gaps, not values. The csv also holds single rates, the last round's "
        f"weights, and errors in units of what is visible of a window. {protocol_facts(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def ablations(shown: Shown) -> Table:
    """FeDaL without its parts and in other forms, and domain bias elimination on other methods."""
    frame = numbers(shown, "reconstruction", "forecast")
    groups = {name: _ablated(name) for name in names(shown)}
    order = ("FeDaL and what it loses", "Other forms", "DBE on other methods")
    methods = sorted(groups, key=lambda n: order.index(groups[n]))
    header: list[tuple[str, str]] = []
    columns: list[dict[Method, Cell]] = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        main = of_methods(of, metric="mse", form="", **HEADLINE).set_index(["method", "variant"])
        header.append((shown.label(dataset), "MSE"))
        columns.append({n: cell(main.loc[[n]]) for n in main.index})
        header.append((shown.label(dataset), "change"))
        columns.append({n: Cell(_change(main["ours_mean"], n)) for n in main.index})
        unseen = of_methods(of, metric="mse", task="forecast", horizon="all")
        if len(unseen):
            means = unseen.groupby(["method", "variant"])["ours_mean"].agg(lambda v: v.mean(skipna=False))
            header.append((shown.label(dataset), "zero-shot MSE"))
            columns.append({n: Cell(EMPTY if np.isnan(v) else f"{v:.{DECIMALS}f}") for n, v in means.items()})
    for paper in ("utsd", "ctsd"):
        values = published(shown, "table_ablation", dataset=paper, metric="mse")
        header.append((f"{PAPER_SETS[paper]}, paper", "MSE"))
        columns.append({(m, v): published_cell(of) for (m, v), of in values.groupby(["method", "variant"])})
        change = values.set_index(["method", "variant"])["value"]
        header.append((f"{PAPER_SETS[paper]}, paper", "change"))
        columns.append({n: Cell(_change(change, n)) for n in change.index})
    rows = [(groups[n], label(*n), [column.get(n, Cell()) for column in columns]) for n in methods]
    notes = (
        "MSE: masked reconstruction as in Table 1. Change: against the method's base. Zero-shot: mean over held-out "
        "sets and horizons of forecasts without learning from them. w/o GBE: neither correction nor core-sets. The "
        f"paper's full row here is another setting than in its Table 1. {protocol_facts(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def _ablated(name: Method) -> str:
    if name[0] != "fedal":
        return "DBE on other methods"
    return "FeDaL and what it loses" if name[1] == "base" or name[1].startswith("no_") else "Other forms"


def _change(values: pd.Series, name: Method) -> str:
    base = name[0], "base"
    if name == base or base not in values.index or np.isnan(values[name]) or np.isnan(values[base]):
        return EMPTY
    return f"{values[name] / values[base] - 1:+.1%}"


def _traffic(shown: Shown, name: Method) -> str:
    """Mebibytes that a client sends up in a round in which it takes part; mean over clients and rounds.

    On one federation: models differ in size between some.
    """
    runs = shown.runs[(shown.runs["method"] == name[0]) & (shown.runs["variant"] == name[1])]
    runs = runs[runs["dataset"] == runs["dataset"].iloc[0]]
    sent = []
    for folder in runs["folder"]:
        log = shown.rounds(folder)
        up = log.loc[(log["quantity"] == "bytes_up") & (log["value"] > 0), "value"]
        sent.append(float(up.mean()) if len(up) else 0.0)
    return f"{np.mean(sent) / MEBIBYTE:.3f}" if any(sent) else "0"
