"""Error against a parameter of the foremost method, with the methods that do not have it as level lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedloom.errors import InputError
from fedloom.report.captions import budget, told
from fedloom.report.figure import Figure, Look, banded, grid, legend
from fedloom.report.numbers import headline
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.6, 0.5
LINES = ("--", ":", "-.")


@dataclass(frozen=True)
class ParameterOptions:
    """``parameter`` of the foremost method, ``label`` in print; ``where``: values of its other parameters.

    Variants whose parameters are not as in ``where`` are left out, such as those to which the parameter means nothing.
    """

    parameter: str
    label: str
    where: dict[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("mae", "rmse")


def error_by_parameter(shown: Shown, options: ParameterOptions) -> Figure:
    """Draw, a row a dataset, errors by the parameter's value, with the methods without it as level lines."""
    metrics = shown.metrics
    metrics = metrics[headline(metrics)]
    drawn, axes = grid(len(shown.datasets), len(options.metrics), ROW_HEIGHT, LEGEND_HEIGHT)
    values = _values(shown, options)
    handles: dict[str, Artist] = {}
    for row, dataset in zip(axes, shown.datasets, strict=True):
        for ax, metric in zip(row, options.metrics, strict=True):
            of = metrics[(metrics["dataset"] == dataset) & (metrics["metric"] == metric)]
            own = of[of["method"] == shown.foremost].assign(x=lambda frame: frame["variant"].map(values))
            by_value = own.dropna(subset=["x"]).groupby("x")["value"].agg(mean="mean", least="min", largest="max")
            if by_value.empty:
                found = f"runs by {options.parameter} of {shown.foremost}"
                raise InputError(f"{shown.where}: {dataset}: expected {found}, found none")
            look = {"color": "C0", "ls": "-", "marker": "o", "ms": 4}
            handles[shown.names.run(shown.ours)] = banded(ax, by_value.index, by_value, look)
            handles |= levels(ax, shown, of)
            unit = shown.panels[dataset]["unit"]
            ax.set(xlabel=options.label, ylabel=f"{shown.names.word(metric)} ({unit})", title=shown.label(dataset))
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(drawn, handles, 4)
    notes = told(
        shown,
        f"Errors on the test part by {options.label}; line: mean over seeds, band: least to largest. Level lines: "
        "methods without that number. Pooled over clients and the whole horizon, weights of the round that was best in "
        "validation.",
        budget(shown),
    )
    return Figure(drawn, shown.caption, notes)


def levels(ax: Axes, shown: Shown, of: pd.DataFrame) -> dict[str, Artist]:
    """Draw the mean of every method in ``of`` but the foremost as a level line; returns them by name in print."""
    others = of[of["method"] != shown.foremost].groupby(["method", "variant"], sort=False)["value"].mean()
    handles: dict[str, Artist] = {}
    for place, (run, value) in enumerate(others.items()):
        look: Look = {"color": f"C{place + 1}", "ls": LINES[place % len(LINES)], "lw": 1.2}
        handles[shown.names.run(run)] = ax.axhline(value, **look)
    return handles


def _values(shown: Shown, options: ParameterOptions) -> dict[str, float]:
    """The parameter's value by variant, of the variants that are as asked."""
    found = {}
    for run in shown.runs[shown.runs["method"] == shown.foremost].itertuples():
        params = shown.record(run.folder)["spec"]["params"]
        if all(params[name] == value for name, value in options.where.items()):
            found[run.variant] = params[options.parameter]
    return found
