"""Off-policy values: four policies by estimator with their intervals, and by method."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.report.causal import ESTIMATOR_LABELS, POLICY_LABELS, Method, methods, pick, tidy
from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.layout import Cell, Table
from fedloom.report.shown import Shown

SHOWN = ("dm", "ips", "snips", "dr", "sndr")
WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.4, 0.6
SPREAD = 0.6
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def values(shown: Shown) -> Figure:
    """Draw, a row a dataset, the policies' values by estimator (left, first method) and by method (right, DR)."""
    frame = tidy(shown)
    frame = frame[(frame["metric"] == "value") & (frame["of_scope"] == "step") & (frame["unit"] == "pooled")]
    datasets = [name for name in shown.datasets if name in set(frame["dataset"])]
    size = (WIDTH, ROW_HEIGHT * len(datasets) + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(len(datasets), 2, figsize=size, squeeze=False, sharey="row")
    handles: dict[str, Any] = {}
    others: dict[str, Any] = {}
    names = methods(frame)
    for (by_estimator, by_method), dataset in zip(axes, datasets, strict=True):
        of = frame[frame["dataset"] == dataset]
        own = [name for name in names if name in methods(of)]
        best = _best_known(of)
        main = _of(of, own[0])
        series = [(ESTIMATOR_LABELS[e], pick(main, estimator=e, propensity=best)) for e in SHOWN]
        handles |= _draw(by_estimator, [each for each in series if len(each[1])], list(range(len(SHOWN))))
        dr = [(run_label(*name), pick(_of(of, name), estimator="dr", propensity=best)) for name in own]
        others |= _draw(by_method, dr, [names.index(name) for name in own])
        for ax in (by_estimator, by_method):
            handles |= _draw_references(ax, main)
        by_estimator.set(title=f"{shown.label(dataset)}: {run_label(*own[0])}", ylabel="mean outcome a step")
        by_method.set(title="DR by method")
    drawn.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=4)
    drawn.legend(others.values(), others.keys(), loc="outside lower right", ncols=2)
    notes = (
        "Value of following a policy at one step of a logged history, with 95 % bootstrap intervals over owners, "
        "stratified by client. Dotted line: what the logged policy earned; bars: the truth, where data are generated. "
        "A cross at the lower edge: no value, for lack of support. DM is the model's belief and needs no support. "
        f"Propensities are estimated from histories, or logged ones where nothing was estimated. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def sampler(shown: Shown) -> Table:
    """Estimates of a random policy's value from another policy's log, against what it earned in its own log."""
    frame = tidy(shown)
    frame = frame[(frame["metric"] == "value") & ~frame["of_policy"].isin([*POLICY_LABELS, "mean", "logged", ""])]
    header = [("", name) for name in ("estimate", "95 % interval", "earned", "its 95 % interval", "estimate / earned")]
    rows = []
    for (dataset, method, variant, policy), of in frame.groupby(
        ["dataset", "method", "variant", "of_policy"], sort=False
    ):
        earned = pick(of, estimator="on_policy").iloc[0]
        for estimator in SHOWN:
            for _, row in pick(of, estimator=estimator).iterrows():
                label = f"{ESTIMATOR_LABELS[estimator]}, {run_label(method, variant)}"
                rows.append((f"{shown.label(dataset)}: {policy}", label, _against(row, earned)))
    notes = (
        "Earned: mean outcome in the log of the policy itself, in the same weeks on the same pages. Intervals are "
        "bootstrap intervals over owners, stratified by client. Estimators without a model do not differ by method. "
        f"{shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def _against(row: pd.Series, earned: pd.Series) -> list[Cell]:
    if np.isnan(row["ours_mean"]):
        return [Cell(str(row["note"]).replace("_", " ")), Cell(), *_interval(earned), Cell()]
    return [*_interval(row), *_interval(earned), Cell(f"{row['ours_mean'] / earned['ours_mean']:.2f}")]


def _interval(row: pd.Series) -> list[Cell]:
    return [Cell(f"{row['ours_mean']:.5f}"), Cell(f"{row['lo']:.5f} to {row['hi']:.5f}")]


def _best_known(of: pd.DataFrame) -> str:
    return "estimated" if "estimated" in set(of["of_propensity"]) else "logged"


def _of(frame: pd.DataFrame, name: Method) -> pd.DataFrame:
    return frame[(frame["method"] == name[0]) & (frame["variant"] == name[1])]


def _draw(ax: Axes, series: list[tuple[str, pd.DataFrame]], places: list[int]) -> dict[str, Any]:
    """Draw points with intervals side by side above each policy; ``places`` says which look a series has."""
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    offsets = np.linspace(-SPREAD / 2, SPREAD / 2, len(series)) if len(series) > 1 else np.zeros(1)
    handles: dict[str, Any] = {}
    for (label, of), place, offset in zip(series, places, offsets, strict=False):
        colour = colours[place % len(colours)]
        by_policy = of.set_index("of_policy")
        for x, policy in enumerate(POLICY_LABELS):
            if policy not in by_policy.index:
                continue
            row = by_policy.loc[policy]
            if np.isnan(row["ours_mean"]):
                ax.plot(x + offset, 0.02, "x", color=colour, ms=5, transform=ax.get_xaxis_transform(), clip_on=False)
                continue
            bars = [[max(row["ours_mean"] - row["lo"], 0)], [max(row["hi"] - row["ours_mean"], 0)]]
            look = {"color": colour, "marker": MARKERS[place % len(MARKERS)], "ms": 4, "lw": 1, "ls": "none"}
            handles[label] = ax.errorbar(x + offset, row["ours_mean"], bars, elinewidth=1, **look)
    ax.set_xticks(range(len(POLICY_LABELS)), list(POLICY_LABELS.values()))
    ax.set_xlim(-0.5, len(POLICY_LABELS) - 0.5)
    ax.grid(visible=False, axis="x")
    return handles


def _draw_references(ax: Axes, of: pd.DataFrame) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    earned = pick(of, estimator="on_policy", policy="logged")
    if len(earned):
        handles["logged policy"] = ax.axhline(earned["ours_mean"].iloc[0], color="0.4", ls=":", lw=1)
    truth = pick(of, prediction="truth").set_index("of_policy")["ours_mean"]
    for x, policy in enumerate(POLICY_LABELS):
        if policy in truth.index:
            handles["truth"] = ax.hlines(truth[policy], x - 0.42, x + 0.42, color="0.25", lw=1.4)
    return handles
