"""Critical-difference diagrams: mean ranks of methods over clients, and which of them the clients tell apart."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.evaluation.ranks import Ranks, ranks
from fedloom.report.captions import told
from fedloom.report.figure import Figure, grid
from fedloom.report.names import Run
from fedloom.report.numbers import UNITS, fitting
from fedloom.report.shown import Shown, of_run, runs_in

ROW_HEIGHT, AROUND = 0.2, 0.75
"""Inches of a method, and of title and axis of a panel."""
NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class RankOptions:
    """Which number ranks the methods at each client: a ``metric`` under the condition ``where``.

    It is a mean over values of the keys ``over``; the ``largest`` is the best, or the least.
    """

    metric: str
    where: dict[str, str] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    largest: bool = False


def rank_diagram(shown: Shown, options: RankOptions) -> Figure:
    """Draw mean ranks with half the critical difference on either side, a panel a dataset of three methods or more."""
    tables = {dataset: _by_client(shown, dataset, options) for dataset in shown.datasets}
    drawn_of = {dataset: table for dataset, table in tables.items() if table.shape[0] > 1 and table.shape[1] > 2}
    heights = [AROUND + ROW_HEIGHT * table.shape[1] for table in drawn_of.values()] or [AROUND]
    drawn, axes = grid(len(heights), 1, sum(heights) / len(heights), gridspec_kw={"height_ratios": heights})
    if not drawn_of:
        axes[0, 0].set_axis_off()
        axes[0, 0].text(0.5, 0.5, "no dataset with three methods", ha="center", va="center")
    for ax, (dataset, table) in zip(axes[:, 0], drawn_of.items(), strict=False):
        found = ranks(table.to_numpy(dtype=np.float64), options.largest)
        _panel(ax, shown, list(table.columns), found)
        unsure = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}"
        sizes = f"{found.blocks} clients", f"CD {found.critical:.2f}", f"Friedman {unsure}"
        together = ", ".join(size.replace(" ", NO_BREAK) for size in sizes)  # a line may break between them alone
        ax.set_title(f"{shown.label(dataset)}: {together}", loc="left")
    axes[-1, 0].set_xlabel(f"mean rank by {shown.names.word(options.metric)}, 1 is the best")
    notes = told(
        shown,
        "Methods are ranked at each client by the mean over seeds. Bars are half of Nemenyi's critical difference (CD) "
        "at the 5 % level on either side: methods whose bars do not overlap differ; the band is that of the best. "
        "Clients of one dataset are not independent of each other, so that these bars are rather too short. Left out: "
        "methods that diverged, or lack a client.",
    )
    return Figure(drawn, shown.caption, notes)


def _by_client(shown: Shown, dataset: str, options: RankOptions) -> pd.DataFrame:
    """The number by client and method, without methods that lack any."""
    frame = shown.metrics
    frame = frame[(frame["dataset"] == dataset) & (frame["metric"] == options.metric) & (frame["horizon"] == "all")]
    frame = frame[(frame["selection"] == "selected") & ~frame["unit"].isin(UNITS)]
    frame = frame[frame["condition"].isin(fitting(frame, options.where, options.over))]
    there = set(runs_in(frame))
    runs: list[Run] = [run for run in shown.compared if run in there]
    columns = {run: _mean_of(of_run(frame, run)) for run in runs}
    table = pd.DataFrame({i: columns[run] for i, run in enumerate(runs)}).dropna(axis=1)
    table.columns = pd.Index([runs[i] for i in table.columns], tupleize_cols=False)
    return table


def _mean_of(own: pd.DataFrame) -> pd.Series:
    """Mean over seeds and conditions by client; NaN where any is null."""
    return own.groupby("unit", sort=False)["value"].agg(lambda values: values.mean(skipna=False))


def _panel(ax: Axes, shown: Shown, runs: list[Run], found: Ranks) -> None:
    order = np.argsort(found.mean_M, kind="stable")
    half = found.critical / 2
    best = found.mean_M[order[0]]
    ax.axvspan(best - half, best + half, color="0.9", lw=0)
    for place, i in enumerate(order):
        foremost = runs[i][0] == shown.foremost
        color = "C0" if foremost else "0.25"
        ax.errorbar(found.mean_M[i], place, xerr=half, color=color, marker="o", capsize=2, lw=1.2, ls="none")
    ax.set_yticks(range(len(runs)), [shown.names.run(runs[i]) for i in order])
    ax.set_ylim(len(runs) - 0.4, -0.6)
    ax.set_xlim(0.5, len(runs) + 0.5)
    ax.grid(axis="y", visible=False)
