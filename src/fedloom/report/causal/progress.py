"""What learning brings as rounds and megabytes go by: error of effects by round, downstream AUC by traffic.

Errors by round are those of the kept weights of these rounds against the truth; training logs none of them.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedloom.report.causal.cells import methods, pick, tidy
from fedloom.report.causal.utility import downstream
from fedloom.report.curves import MEGABYTE, Curve, looks, over_seeds
from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.shown import Shown
from fedloom.report.summary import ROW

METRIC = "pehe_root"
STAYS = 3
"""How many evaluations in a row must stay at or below a target for it to count as reached."""

LEVELS = {"constant_effect": ("true mean effect for everyone", ":"), "oracle": ("true mechanism, as few draws", "-.")}
"""What needs no model, on the same units: name in print and line style. The first is the target."""

WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.7, 0.6
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def convergence(shown: Shown) -> Figure:
    """Draw root PEHE over a window by round on every dataset with a truth, and by megabyte sent up."""
    frame = by_round(shown)
    datasets = [dataset for dataset in shown.datasets if dataset in set(frame["dataset"])]
    size = (WIDTH, ROW_HEIGHT * max(1, len(datasets)) + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(max(1, len(datasets)), 2, figsize=size, squeeze=False, sharey="row")
    names = methods(shown.runs)
    styles = dict(zip(names, looks(len(names)), strict=True))
    handles: dict[str, Artist] = {}
    reached: list[str] = []
    for (left, right), dataset in zip(axes, datasets, strict=False):
        of = frame[frame["dataset"] == dataset]
        levels = {name: of.loc[of["prediction"] == name, "value"].mean() for name in LEVELS}
        found = {name: progress(shown, of, dataset, *name) for name in names}
        for name, value in found.items():
            if value is not None:
                handles[run_label(*name)] = _draw(left, right, value, styles[name])
                target = levels["constant_effect"]
                reached.append(f"{run_label(*name)} {_reached(value.error['mean'], target)}")
        for level, (label, style) in LEVELS.items():
            for ax in (left, right):
                handles[label] = ax.axhline(levels[level], color="0.35", ls=style, lw=1)
        left.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        left.set(title=shown.label(dataset), xlabel="round", ylabel="root PEHE")
        right.set(xlabel="sent up by all clients (MB)")
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3)
    notes = (
        f"Root PEHE over a window on {_units(frame)} by the weights of each round that was kept, computed after "
        f"training, which never sees it; line: mean over seeds, band: least to largest.{_early(frame)} Dotted, the "
        "target: the error of giving everyone the true mean effect. Dash-dotted: what so few draws leave of the true "
        f"mechanism itself. At or below the target, kept for {STAYS} evaluations: "
        f"{'; '.join(reached) or 'nothing was kept'}. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def by_round(shown: Shown) -> pd.DataFrame:
    """Return the errors of the rounds' weights: dataset, method, variant, seed, round (from 0), prediction, value, n.

    ``prediction`` is empty for the model's own; ``early`` says that the model was not whole yet in that round.
    """
    metrics = shown.metrics
    of = metrics[(metrics["metric"] == METRIC) & (metrics["selection"] == "last")].reset_index(drop=True)
    parts = [dict(p.split("=", 1) for p in c.split(",")) if c else {} for c in of["condition"]]
    columns = ["round", "scope", "prediction", "selectable"]
    under = pd.DataFrame(parts, index=of.index).reindex(columns=columns).fillna("")
    of = of[[*ROW, "seed", "value", "n"]].join(under)
    of = of[(of["round"] != "") & (of["scope"] == "window")]
    return of.assign(round=of["round"].astype(int), early=of["selectable"] == "no")


def progress(shown: Shown, frame: pd.DataFrame, dataset: str, method: str, variant: str) -> Curve | None:
    """Return the curve of a method's variant from the rows of ``by_round``; None where it has none."""
    runs = shown.runs
    folders = runs.loc[(runs[ROW] == [dataset, method, variant]).all(axis=1)].set_index("seed")["folder"]
    own = frame[(frame[ROW] == [dataset, method, variant]).all(axis=1) & (frame["prediction"] == "")]
    values = {seed: of.set_index("round")["value"] for seed, of in own.groupby("seed")}
    return over_seeds(list(values.values()), [shown.rounds(folders[seed]) for seed in values])


def rounds_to_target(error: pd.Series, target: float) -> int | None:
    """Return the first round from which the error stays at or below ``target`` for ``STAYS`` evaluations.

    ``error`` is indexed by round; None where that never happens, as with fewer evaluations than that.
    """
    below = (error.to_numpy() <= target).astype(int)
    for first in range(len(below) - STAYS + 1):
        if below[first : first + STAYS].all():
            return int(error.index[first])
    return None


def _reached(error: pd.Series, target: float) -> str:
    """When a method reached the target, in words; a stay that the end of training cuts short is told apart."""
    rounds = rounds_to_target(error, target)
    if rounds is not None:
        return f"from round {rounds}"
    above = np.flatnonzero(error.to_numpy() > target)
    stay = len(error) - (int(above[-1]) + 1 if len(above) else 0)
    if not stay:
        return "not"
    return f"from round {error.index[-stay]}, but training ended after {stay} evaluation{'s' * (stay > 1)}"


def _draw(left: Axes, right: Axes, value: Curve, look: dict[str, Any]) -> Artist:
    look = look | {"marker": look["marker"] or "o", "ms": 3}  # few rounds are kept: show which
    (line,) = left.plot(value.error.index, value.error["mean"], **look)
    bounds = value.error["least"], value.error["largest"]
    left.fill_between(value.error.index, *bounds, color=look["color"], alpha=0.15, lw=0)
    if value.sent.iloc[-1] > 0:
        right.plot(value.sent, value.error["mean"], **look)
    return line


def _units(frame: pd.DataFrame) -> str:
    counts = sorted(set(frame["n"]))
    return f"{'/'.join(str(n) for n in counts)} test sequences"


def _early(frame: pd.DataFrame) -> str:
    """Which rounds show a model that is not whole yet."""
    early = sorted(set(frame.loc[frame["early"], "round"] + 1))
    if not early:
        return ""
    listed = f"round{'s' * (len(early) > 1)} {', '.join(map(str, early))}"
    return f" Dynamics or decoder are not trained to the end by {listed}, which could not be selected."


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
