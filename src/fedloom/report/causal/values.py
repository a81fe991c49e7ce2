"""Off-policy values: four policies by estimator with their intervals, and by method."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.report.causal.cells import ESTIMATOR_LABELS, POLICY_LABELS, Method, methods, pick, practical, tidy
from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.layout import Cell, Table
from fedloom.report.shown import Shown

SHOWN = ("dm", "ips", "snips", "dr", "sndr")
WITHOUT_MODEL = ("ips", "snips")
PARTS = {"all": "whole log", "test": "test part"}
NO_SAMPLER = "no log of another policy beside these data"
SEQUENCES, SHORT = ("dm", "wis", "pdis", "pdwis", "pddr"), "2"
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
    names, first = methods(frame), []
    for (by_estimator, by_method), dataset in zip(axes, datasets, strict=True):
        of = frame[frame["dataset"] == dataset]
        own = [name for name in names if name in methods(of)]
        best = practical(of)
        main = _of(of, own[0])
        series = [(ESTIMATOR_LABELS[e], pick(main, estimator=e, propensity=best)) for e in SHOWN]
        handles |= _draw(by_estimator, [each for each in series if len(each[1])], list(range(len(SHOWN))))
        dr = [(run_label(*name), pick(_of(of, name), estimator="dr", propensity=best)) for name in own]
        others |= _draw(by_method, dr, [names.index(name) for name in own])
        for ax in (by_estimator, by_method):
            handles |= _draw_references(ax, main)
        by_estimator.set(title=shown.label(dataset), ylabel="mean outcome a step")
        by_method.set(title="DR by method")
        first += [run_label(*own[0])]
    drawn.legend(others.values(), others.keys(), loc="outside upper right", ncols=3)
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=7, handlelength=1.5)
    notes = (
        "Value of following a policy at one step of a logged history, with 95 % bootstrap intervals over owners, "
        f"stratified by client; on the left with the model of {' or '.join(dict.fromkeys(first))}. Dotted line: what "
        "the logged policy earned; bars: the truth, where data are generated. "
        "A cross at the lower edge: no value, for lack of support. DM is the model's belief and needs no support. "
        f"Propensities are logged ones; where there are none, and in generated data, estimates. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def estimates(shown: Shown) -> Table:
    """Every policy's value by estimator, of single steps and of short windows, by logged and estimated weights."""
    frame = tidy(shown)
    header = [("Steps", "truth"), *(("Steps", ESTIMATOR_LABELS[name]) for name in SHOWN)]
    header += [(f"Windows of {SHORT} steps", ESTIMATOR_LABELS[name]) for name in SEQUENCES]
    rows = []
    for dataset in shown.datasets:
        of = frame[(frame["dataset"] == dataset) & (frame["metric"] == "value") & (frame["unit"] == "pooled")]
        name = methods(of)[0]
        main = _of(of, name)
        for policy, label in POLICY_LABELS.items():
            for propensity in ("logged", "estimated"):
                mine = pick(main, policy=policy, propensity=propensity)
                if mine.empty:
                    continue
                cells = [_cell(pick(main, scope="step", policy=policy, prediction="truth"))]
                cells += [_cell(pick(mine, scope="step", estimator=each)) for each in SHOWN]
                cells += [_cell(pick(mine, scope="window", horizon=SHORT, estimator=each)) for each in SEQUENCES]
                rows.append((f"{shown.label(dataset)}: {run_label(*name)}", f"{label}, {propensity} propensity", cells))
    notes = (
        "Mean outcome a step with 95 % bootstrap intervals over owners, stratified by client; null ones say why. "
        "DM is the model's belief and needs no support. "
        "The csv also holds the other methods and lengths of window. "
        f"{shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame[frame["metric"].isin(["value", "value_error"])])


def _cell(of: pd.DataFrame) -> Cell:
    if of.empty:
        return Cell()
    row = of.iloc[0]
    if np.isnan(row["ours_mean"]):
        return Cell(str(row["note"]).replace("_", " "))
    bounds = "" if np.isnan(row["lo"]) else f" [{row['lo']:.3f}, {row['hi']:.3f}]"
    return Cell(f"{row['ours_mean']:.3f}{bounds}")


def sampler(shown: Shown) -> Table:
    """Estimates of a random policy's value from another policy's log, against what it earned in its own log."""
    frame = tidy(shown)
    frame = frame[(frame["metric"] == "value") & ~frame["of_policy"].isin([*POLICY_LABELS, "mean", "logged", ""])]
    header = [("", name) for name in ("estimate", "95 % interval", "earned", "its 95 % interval", "estimate / earned")]
    rows = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        rows += _sampled(of, shown.label(dataset)) or [(shown.label(dataset), NO_SAMPLER, [Cell()] * len(header))]
    notes = (
        "Earned: mean outcome of all rows in the log of the policy itself, in the same days on the same pages; its "
        "probabilities are its shares of actions by place on the page, in training rows of that log. All estimators "
        "see the test part of the other log; IPS and SNIPS, which use no model, also the whole of it. Intervals are "
        f"bootstrap intervals over owners, stratified by client. {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def _sampled(of: pd.DataFrame, label: str) -> list[tuple[str, str, list[Cell]]]:
    """Rows of every policy that has a log of its own beside a dataset."""
    rows = []
    for policy in of["of_policy"].unique():
        mine = of[of["of_policy"] == policy]
        names = methods(mine)
        earned = pick(_of(mine, names[0]), estimator="on_policy").iloc[0]
        for part, estimators in (("all", WITHOUT_MODEL), ("test", SHOWN)):
            for estimator in estimators:
                # Without a model nothing of the method is in an estimate.
                for name in names[:1] if estimator in WITHOUT_MODEL else names:
                    what = f"{ESTIMATOR_LABELS[estimator]}, {PARTS[part]}"
                    what += "" if estimator in WITHOUT_MODEL else f": {run_label(*name)}"
                    for _, row in pick(_of(mine, name), estimator=estimator, rows=part).iterrows():
                        rows.append((f"{label}: {policy}", what, _against(row, earned)))
    return rows


def _against(row: pd.Series, earned: pd.Series) -> list[Cell]:
    if np.isnan(row["ours_mean"]):
        return [Cell(str(row["note"]).replace("_", " ")), Cell(), *_interval(earned), Cell()]
    return [*_interval(row), *_interval(earned), Cell(f"{row['ours_mean'] / earned['ours_mean']:.2f}")]


def _interval(row: pd.Series) -> list[Cell]:
    return [Cell(f"{row['ours_mean']:.5f}"), Cell(f"{row['lo']:.5f} to {row['hi']:.5f}")]


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
