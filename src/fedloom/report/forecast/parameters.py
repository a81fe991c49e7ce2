"""How the foremost method's error moves with each of its parameters: Figure 8 of Atlas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist

from fedloom.report.captions import told
from fedloom.report.figure import Figure, banded, grid, legend
from fedloom.report.forecast.parameter import levels
from fedloom.report.numbers import headline
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.1, 0.4


@dataclass(frozen=True)
class ParametersOptions:
    """``parameters`` of the foremost method and what they are called in print, a panel each."""

    parameters: dict[str, str]
    metrics: tuple[str, ...] = ("mae", "rmse")


def error_by_parameters(shown: Shown, options: ParametersOptions) -> Figure:
    """Draw, a row a dataset and metric, the error by each parameter, with other methods' as level lines."""
    metrics = shown.metrics[headline(shown.metrics)]
    rows = [(dataset, metric) for dataset in shown.datasets for metric in options.metrics]
    drawn, axes = grid(len(rows), len(options.parameters), ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    handles: dict[str, Artist] = {}
    for line_of_axes, (dataset, metric) in zip(axes, rows, strict=True):
        of = metrics[(metrics["dataset"] == dataset) & (metrics["metric"] == metric)]
        params = _params(shown, dataset)
        for ax, (name, label) in zip(line_of_axes, options.parameters.items(), strict=True):
            own = _along(of[of["method"] == shown.foremost], params, name)
            ticks = sorted(set(own["x"]))
            by_value = own.groupby("x")["value"].agg(mean="mean", least="min", largest="max")
            places = np.array([ticks.index(value) for value in by_value.index], dtype=np.float64)
            look: dict[str, Any] = {"color": "C0", "ls": "-", "marker": "o", "ms": 4}
            handles[shown.names.run(shown.ours)] = banded(ax, places, by_value, look)
            base = ticks.index(params["base"][name])
            (handles["its own setting"],) = ax.plot(
                base, by_value["mean"].iloc[base], "o", ms=8, mfc="none", mec="C0", zorder=3
            )
            handles |= levels(ax, shown, of)
            ax.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
            ax.set(xlabel=label, xlim=(-0.4, max(1, len(ticks) - 1) + 0.4))
        unit = shown.panels[dataset]["unit"]
        line_of_axes[0].set(title=shown.label(dataset), ylabel=f"{shown.names.word(metric)} ({unit})")
    legend(drawn, handles, 4)
    notes = told(
        shown,
        "Errors on the test part. In each panel one parameter moves and all others are the method's own setting, which "
        "is ringed; values stand side by side, not to scale. Line: mean over seeds, band: least to largest. Level "
        "lines: methods without these parameters. Pooled over clients and the whole horizon, weights of the round that "
        "was best in validation.",
    )
    return Figure(drawn, shown.caption, notes)


def _params(shown: Shown, dataset: str) -> dict[str, dict[str, Any]]:
    """Variant -> parameters of the foremost method's runs on a dataset."""
    runs = shown.runs[(shown.runs["method"] == shown.foremost) & (shown.runs["dataset"] == dataset)]
    return {run.variant: shown.record(run.folder)["spec"]["params"] for run in runs.itertuples()}


def _along(own: pd.DataFrame, params: Mapping[str, Mapping[str, Any]], name: str) -> pd.DataFrame:
    """The rows of the variants that differ from the base in nothing but ``name``, whose value is their ``x``."""
    base = params["base"]
    alike = [v for v, of in params.items() if all(of[other] == base[other] for other in base if other != name)]
    rows = own[own["variant"].isin(alike) & own["value"].notna()]
    return rows.assign(x=rows["variant"].map({variant: params[variant][name] for variant in alike}))
