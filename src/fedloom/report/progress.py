"""What learning brings as rounds and megabytes go by: error of effects by round, downstream AUC by traffic."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.ticker import MaxNLocator

from fedloom.report.causal import methods, pick, tidy
from fedloom.report.curves import MEGABYTE, curve, looks
from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.shown import Shown
from fedloom.report.utility import downstream

QUANTITY = "pehe_root"
STAYS = 3
"""How many evaluations in a row must stay at or below a target for it to count as reached."""

WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.7, 0.6
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def convergence(shown: Shown) -> Figure:
    """Draw root PEHE over a window by round on every dataset with a truth, and by megabyte sent up."""
    frame = tidy(shown)
    names = methods(shown.runs)
    found = {(d, name): curve(shown, d, *name, QUANTITY) for d in shown.datasets for name in names}
    known = {key: value for key, value in found.items() if value is not None}
    datasets = [dataset for dataset in shown.datasets if any(key[0] == dataset for key in known)]
    size = (WIDTH, ROW_HEIGHT * max(1, len(datasets)) + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(max(1, len(datasets)), 2, figsize=size, squeeze=False, sharey="row")
    handles: dict[str, Artist] = {}
    reached: list[str] = []
    styles = dict(zip(names, looks(len(names)), strict=True))
    for (by_round, by_megabyte), dataset in zip(axes, datasets, strict=False):
        target = constant_effect(frame, dataset)
        for name in names:
            value = known.get((dataset, name))
            if value is None:
                continue
            (handles[run_label(*name)],) = by_round.plot(value.error.index, value.error["mean"], **styles[name])
            bounds = value.error["least"], value.error["largest"]
            by_round.fill_between(value.error.index, *bounds, color=styles[name]["color"], alpha=0.15, lw=0)
            if value.sent.iloc[-1] > 0:
                by_megabyte.plot(value.sent, value.error["mean"], **styles[name])
            rounds = rounds_to_target(value.error["mean"], target)
            reached.append(f"{run_label(*name)} {'not' if rounds is None else f'in round {rounds}'}")
        if not math.isnan(target):
            for ax in (by_round, by_megabyte):
                handles["true mean effect for everyone"] = ax.axhline(target, color="0.35", ls=":", lw=1)
        by_round.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        by_round.set(title=shown.label(dataset), xlabel="round", ylabel="root PEHE")
        by_megabyte.set(xlabel="sent up by all clients (MB)")
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3)
    notes = (
        "Root PEHE over a window on some validation units, with few draws, during training; line: mean over seeds, "
        "band: least to largest. Dotted: the error of giving everyone the true mean effect, which is the target. "
        f"Reached, and kept for {STAYS} evaluations: {'; '.join(reached) or 'nothing was logged'}. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def rounds_to_target(error: pd.Series, target: float) -> int | None:
    """Return the first round from which the error stays at or below ``target`` for ``STAYS`` evaluations.

    ``error`` is indexed by round; None where that never happens, as with fewer evaluations than that.
    """
    below = (error.to_numpy() <= target).astype(int)
    for first in range(len(below) - STAYS + 1):
        if below[first : first + STAYS].all():
            return int(error.index[first])
    return None


def constant_effect(frame: pd.DataFrame, dataset: str) -> float:
    """Return the root PEHE of giving everyone the true mean effect, NaN where there is no truth."""
    of = pick(frame[frame["dataset"] == dataset], metric=QUANTITY, scope="window", prediction="constant_effect")
    return float(of["ours_mean"].iloc[0]) if len(of) else math.nan


def traffic(shown: Shown) -> Figure:
    """Draw, a panel a dataset, downstream AUC of every method against the megabytes that all clients sent up."""
    frame = tidy(shown)
    auc = downstream(frame, "tstr_auc")
    datasets = [dataset for dataset in shown.datasets if dataset in set(auc["dataset"])]
    columns = min(2, max(1, len(datasets)))
    rows = math.ceil(max(1, len(datasets)) / columns)
    size = (WIDTH, ROW_HEIGHT * rows + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    names = methods(auc)
    handles: dict[str, Artist] = {}
    for ax in axes.flat[len(datasets) :]:
        ax.set_axis_off()
    for ax, dataset in zip(axes.flat, datasets, strict=False):
        by_name = auc[auc["dataset"] == dataset].set_index(["method", "variant"])
        for place, name in enumerate(names):
            if name not in by_name.index:
                continue
            row = by_name.loc[name]
            look = {"color": colours[place % len(colours)], "marker": MARKERS[place % len(MARKERS)], "ls": "none"}
            sent = sent_up(shown, dataset, *name)
            spread = 0 if np.isnan(row["ours_sd"]) else row["ours_sd"]
            handles[run_label(*name)] = ax.errorbar(sent, row["ours_mean"], spread, ms=6, elinewidth=1, **look)
        of = frame[frame["dataset"] == dataset]
        for source, label, style in (("real", "trained on real data", "--"), ("shuffled", "shuffled outcomes", ":")):
            level = pick(of, metric="tstr_auc", unit="pooled", source=source)["ours_mean"]
            if len(level):
                handles[label] = ax.axhline(level.iloc[0], color="0.4", ls=style, lw=1)
        ax.set(title=shown.label(dataset), xlabel="sent up by all clients (MB)", ylabel="downstream AUC")
        ax.set_xlim(left=0, right=1.08 * ax.get_xlim()[1])
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3)
    notes = (
        "Downstream: a predictor learns from generated sequences and is tested on real ones. MB: 10⁶ bytes, four a "
        "number sent, no headers, all rounds and clients together; a method that sends nothing is at 0. Bars: standard "
        f"deviation over seeds. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def sent_up(shown: Shown, dataset: str, method: str, variant: str) -> float:
    """Return the megabytes that all clients sent up in all rounds, as a mean over seeds."""
    runs = shown.runs
    chosen = (runs["dataset"] == dataset) & (runs["method"] == method) & (runs["variant"] == variant)
    logs = [shown.rounds(folder) for folder in runs.loc[chosen, "folder"]]
    return float(np.mean([log.loc[log["quantity"] == "bytes_up", "value"].sum() for log in logs])) / MEGABYTE
