"""Error against the number of neighbours that a client listens to."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from fedloom.errors import InputError
from fedloom.report.costs import budget
from fedloom.report.figure import Figure
from fedloom.report.labels import METRICS, run_label
from fedloom.report.shown import Shown
from fedloom.report.summary import headline

WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.6, 0.5
GRAPH_METHOD = "st_split_vfl"
SHOWN_METRICS = ("mae", "rmse")
LINES = ("--", ":", "-.")


def neighbours(shown: Shown) -> Figure:
    """Draw, a row a dataset, MAE (left) and RMSE (right) by k, with the methods that have no k as level lines."""
    metrics = shown.metrics
    metrics = metrics[headline(metrics)]
    datasets = shown.datasets
    size = (WIDTH, ROW_HEIGHT * len(datasets) + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(len(datasets), len(SHOWN_METRICS), figsize=size, squeeze=False)
    number = _neighbours(shown)
    handles = {}
    for row, dataset in zip(axes, datasets, strict=True):
        for ax, metric in zip(row, SHOWN_METRICS, strict=True):
            of = metrics[(metrics["dataset"] == dataset) & (metrics["metric"] == metric)]
            mine = of[of["method"] == GRAPH_METHOD].assign(k=lambda frame: frame["variant"].map(number))
            by_k = mine.dropna(subset=["k"]).groupby("k")["value"].agg(["mean", "min", "max"])
            if by_k.empty:
                raise InputError(
                    f"{shown.study}/{shown.name}: {dataset}: expected runs by k of {GRAPH_METHOD}, found none"
                )
            (handles[run_label(GRAPH_METHOD, "base")],) = ax.plot(by_k.index, by_k["mean"], "o-", color="C0", ms=4)
            ax.fill_between(by_k.index, by_k["min"], by_k["max"], color="C0", alpha=0.15, lw=0)
            others = of[of["method"] != GRAPH_METHOD].groupby(["method", "variant"], sort=False)["value"].mean()
            for place, (name, value) in enumerate(others.items()):
                look = {"color": f"C{place + 1}", "ls": LINES[place % len(LINES)], "lw": 1.2}
                handles[run_label(*name)] = ax.axhline(value, **look)
            unit = shown.panels[dataset]["unit"]
            ax.set(xlabel="neighbours k", ylabel=f"{METRICS[metric]} ({unit})", title=shown.label(dataset))
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=min(4, len(handles)))
    notes = (
        "Errors on the test part by the number of nearest clients whose codes a client reads, beside its own; line: "
        "mean over seeds, band: least to largest. Level lines: methods without that number. Pooled over clients and "
        f"the whole horizon, weights of the round that was best in validation. {budget(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def _neighbours(shown: Shown) -> dict[str, int]:
    """Return k by variant, for the variants whose graph is that of the nearest clients."""
    found = {}
    for run in shown.runs[shown.runs["method"] == GRAPH_METHOD].itertuples():
        params = shown.record(run.folder)["spec"]["params"]
        if params["graph"] == "knn":
            found[run.variant] = int(params["k"])
    return found
