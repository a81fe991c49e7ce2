"""What sending brings: downstream AUC against the megabytes that all clients sent up."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.report.captions import told
from fedloom.report.causal.utility import downstream
from fedloom.report.figure import MEGABYTE, Figure, dots, legend, tiles
from fedloom.report.names import Run
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.7, 0.6
LEVELS = {"real": ("trained on real data", "--"), "shuffled": ("shuffled outcomes", ":")}
"""Other sources of training sequences: name in print and line style."""


def auc_by_traffic(shown: Shown) -> Figure:
    """Draw, a panel a dataset, downstream AUC of every method against the megabytes that all clients sent up."""
    frame = tidy(shown)
    auc = downstream(frame, "tstr_auc")
    datasets = [dataset for dataset in shown.datasets if dataset in set(auc["dataset"])]
    drawn, axes = tiles(len(datasets), 2, ROW_HEIGHT, LEGEND_HEIGHT)
    styles = dots(shown.compared)
    handles: dict[str, Any] = {}
    for ax, dataset in zip(axes, datasets, strict=False):
        by_run = auc[auc["dataset"] == dataset].set_index(["method", "variant"])
        for run, look in styles.items():
            if run in by_run.index:
                row = by_run.loc[run]
                deviation = 0 if np.isnan(row["ours_sd"]) else row["ours_sd"]
                point = sent_up(shown, dataset, run), row["ours_mean"], deviation
                handles[shown.names.run(run)] = ax.errorbar(*point, ms=6, elinewidth=1, **look)
        of = frame[frame["dataset"] == dataset]
        for source, (label, style) in LEVELS.items():
            level = pick(of, metric="tstr_auc", unit="pooled", source=source)["ours_mean"]
            if len(level):
                handles[label] = ax.axhline(level.iloc[0], color="0.4", ls=style, lw=1)
        ax.set(title=shown.label(dataset), xlabel="sent up by all clients (MB)", ylabel="downstream AUC")
        ax.set_xlim(left=0, right=1.08 * ax.get_xlim()[1])
    legend(drawn, handles, 3)
    notes = told(
        shown,
        "Downstream: a predictor learns from generated sequences and is tested on real ones. MB: 10⁶ bytes, four a "
        "number sent, no headers, all rounds and clients together; a method that sends nothing is at 0. Bars: standard "
        "deviation over seeds.",
    )
    return Figure(drawn, shown.caption, notes)


def sent_up(shown: Shown, dataset: str, run: Run) -> float:
    """Return the megabytes that all clients sent up in all rounds, as a mean over seeds."""
    logs = [shown.rounds(folder) for folder in shown.folders_of(dataset, run).values()]
    return float(np.mean([log.loc[log["quantity"] == "bytes_up", "value"].sum() for log in logs])) / MEGABYTE
