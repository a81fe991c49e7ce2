"""Off-policy values: four policies by estimator with their intervals, and by method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.report.captions import told
from fedloom.report.causal.intervals import over_seeds
from fedloom.report.causal.support import practical
from fedloom.report.figure import Figure, Look, dots, grid, legend
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown, of_run, runs_in

SHOWN = ("dm", "ips", "snips", "dr", "sndr")
SEQUENCES, SHORT = ("dm", "wis", "pdis", "pdwis", "pddr"), "2"
BOUNDS = ("value_lower", "value_upper")
ROW_HEIGHT, LEGEND_HEIGHT = 2.4, 0.6
SPREAD = 0.6


def values(shown: Shown) -> Figure:
    """Draw, a row a dataset, the policies' values by estimator (left, first method) and by method (right, DR)."""
    everything = pick(over_seeds(shown, tidy(shown)), scope="step", unit="pooled")
    frame = pick(everything, metric="value")
    datasets = [name for name in shown.datasets if name in set(frame["dataset"])]
    drawn, axes = grid(len(datasets), 2, ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    handles: dict[str, Any] = {}
    others: dict[str, Any] = {}
    first: list[str] = []
    by_name, of_estimator = dots(shown.compared), dots(SHOWN)
    for (by_estimator, by_method), dataset in zip(axes, datasets, strict=True):
        of = frame[frame["dataset"] == dataset]
        own = [run for run in shown.compared if run in runs_in(of)]
        best = practical(of)
        main = of_run(of, own[0])
        series = {e: pick(main, estimator=e, propensity=best) for e in SHOWN}
        known = {shown.names.word(e): (each, of_estimator[e]) for e, each in series.items() if len(each)}
        handles |= _draw(shown, by_estimator, known)
        dr = {run: pick(of_run(of, run), estimator="dr", propensity=best) for run in own}
        others |= _draw(shown, by_method, {shown.names.run(run): (each, by_name[run]) for run, each in dr.items()})
        for ax in (by_estimator, by_method):
            handles |= _draw_references(ax, main)
        handles |= _draw_bounds(by_estimator, pick(of_run(everything, own[0]), dataset=dataset, propensity=best))
        by_estimator.set(title=shown.label(dataset), ylabel="mean outcome a step")
        by_method.set(title="DR by method")
        first.append(shown.names.run(own[0]))
    legend(drawn, others, 3, "upper right")
    legend(drawn, handles, 7, handlelength=1.5)
    notes = told(
        shown,
        "Value of following a policy at one step of a logged history, with 95 % bootstrap intervals over owners, "
        f"stratified by client; on the left with the model of {' or '.join(dict.fromkeys(first))}. Dotted line: what "
        "the logged policy earned; bars: the truth, where data are generated. "
        "Shaded: conservative bounds, which count what the log cannot show as failures below and as successes above. "
        "A cross at the lower edge: no value, for lack of support. DM is the model's belief and needs no support. "
        "Propensities are logged ones; where there are none, and in generated data, estimates.",
    )
    return Figure(drawn, shown.caption, notes)


def estimates(shown: Shown) -> Table:
    """Every policy's value by estimator, of single steps and of short windows, by logged and estimated weights."""
    frame = over_seeds(shown, tidy(shown))
    word, windows = shown.names.word, f"Windows of {SHORT} steps"
    header = [("Steps", "truth"), *(("Steps", word(name)) for name in SHOWN), ("Steps", "bounds")]
    header += [*((windows, word(name)) for name in SEQUENCES), (windows, "bounds")]
    rows = []
    for dataset in shown.datasets:
        of = pick(frame, dataset=dataset, unit="pooled")
        run = shown.foremost_first(runs_in(pick(of, metric="value")))[0]
        everything = of_run(of, run)
        main = pick(everything, metric="value")
        for policy in POLICIES:
            for propensity in ("logged", "estimated"):
                mine = pick(main, policy=policy, propensity=propensity)
                if mine.empty:
                    continue
                cells = [_cell(pick(main, scope="step", policy=policy, prediction="truth"))]
                left_open = pick(everything, policy=policy, propensity=propensity)
                cells += [_cell(pick(mine, scope="step", estimator=each)) for each in SHOWN]
                cells.append(_bounds(pick(left_open, scope="step")))
                cells += [_cell(pick(mine, scope="window", horizon=SHORT, estimator=each)) for each in SEQUENCES]
                cells.append(_bounds(pick(left_open, scope="window", horizon=SHORT)))
                label = f"{word(policy)}, {propensity} propensity"
                rows.append((f"{shown.label(dataset)}: {shown.names.run(run)}", label, cells))
    notes = told(
        shown,
        "Mean outcome a step with 95 % bootstrap intervals over owners, stratified by client, and over seeds where "
        "there are several; null ones say why. DM is the model's belief and needs no support. Bounds trust no model "
        "and no support: what truncated weights leave out counts as failures in the lower and as successes in the "
        "upper one, both with the sampling error of owners; from too few rows they leave open every outcome. The csv "
        "also holds the other methods and lengths of window.",
    )
    behind = frame[frame["metric"].isin(["value", "value_error", *BOUNDS])]
    return Table(header, rows, shown.caption, notes, behind, ("Data set: method", "Policy"))


def _cell(of: pd.DataFrame) -> Cell:
    if of.empty:
        return Cell()
    row = of.iloc[0]
    if np.isnan(row["ours_mean"]):
        return Cell(str(row["note"]).replace("_", " "))
    bounds = "" if np.isnan(row["lo"]) else f" [{row['lo']:.3f}, {row['hi']:.3f}]"
    return Cell(f"{row['ours_mean']:.3f}{bounds}")


def _bounds(of: pd.DataFrame) -> Cell:
    known = of.set_index("metric")["ours_mean"]
    lower, upper = (known.get(name, np.nan) for name in BOUNDS)
    return Cell() if np.isnan(lower) or np.isnan(upper) else Cell(f"[{lower:.3f}, {upper:.3f}]")


def _draw_bounds(ax: Axes, of: pd.DataFrame) -> dict[str, Any]:
    """Shade each policy's bounds, as far as the axis goes for the values themselves."""
    limits, handles = ax.get_ylim(), {}
    for x, policy in enumerate(POLICIES):
        known = pick(of, policy=policy).set_index("metric")["ours_mean"]
        lower, upper = (known.get(name, np.nan) for name in BOUNDS)
        if not np.isnan(lower):
            handles["bounds"] = ax.bar(x, upper - lower, 0.84, lower, color="0.93", zorder=0)
    ax.set_ylim(limits)
    return handles


def _draw(shown: Shown, ax: Axes, series: dict[str, tuple[pd.DataFrame, Look]]) -> dict[str, Any]:
    """Draw points with intervals side by side above each policy: a label, its rows and its look each."""
    offsets = np.linspace(-SPREAD / 2, SPREAD / 2, len(series)) if len(series) > 1 else np.zeros(1)
    handles: dict[str, Any] = {}
    for (label, (of, look)), offset in zip(series.items(), offsets, strict=False):
        by_policy = of.set_index("of_policy")
        for x, policy in enumerate(POLICIES):
            if policy not in by_policy.index:
                continue
            row, place = by_policy.loc[policy], x + offset
            if np.isnan(row["ours_mean"]):
                none = {"color": look["color"], "ms": 5, "clip_on": False}
                ax.plot(place, 0.02, "x", transform=ax.get_xaxis_transform(), **none)
                continue
            bars = [[max(row["ours_mean"] - row["lo"], 0)], [max(row["hi"] - row["ours_mean"], 0)]]
            handles[label] = ax.errorbar(place, row["ours_mean"], bars, ms=4, lw=1, elinewidth=1, **look)
    ax.set_xticks(range(len(POLICIES)), [shown.names.word(policy) for policy in POLICIES])
    ax.set_xlim(-0.5, len(POLICIES) - 0.5)
    ax.grid(visible=False, axis="x")
    return handles


def _draw_references(ax: Axes, of: pd.DataFrame) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    earned = pick(of, estimator="on_policy", policy="logged")
    if len(earned):
        handles["logged policy"] = ax.axhline(earned["ours_mean"].iloc[0], color="0.4", ls=":", lw=1)
    truth = pick(of, prediction="truth").set_index("of_policy")["ours_mean"]
    for x, policy in enumerate(POLICIES):
        if policy in truth.index:
            handles["truth"] = ax.hlines(truth[policy], x - 0.42, x + 0.42, color="0.25", lw=1.4)
    return handles
