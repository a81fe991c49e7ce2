"""Off-policy values of four policies with their intervals, by estimator and by method."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.report.captions import told
from fedloom.report.causal.intervals import over_seeds
from fedloom.report.causal.support import practical
from fedloom.report.figure import WIDTH, Figure, Look, dots, legend
from fedloom.report.layout import Cell, Table
from fedloom.report.names import Run
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown, of_run, runs_in

SHOWN = ("dm", "ips", "snips", "dr", "sndr")
SEQUENCES, SHORT = ("dm", "wis", "pdis", "pdwis", "pddr"), "2"
BOUNDS = ("value_lower", "value_upper")
ROW_HEIGHT, FRAME_HEIGHT = 0.16, 0.45  # inches of a line, and of what stands around the panels of a dataset


def values(shown: Shown) -> Figure:
    """Draw, for each dataset and policy, a row an estimator for the first method and below it a row a method, DR."""
    everything = pick(over_seeds(shown, tidy(shown)), scope="step", unit="pooled")
    frame = pick(everything, metric="value")
    datasets = [name for name in shown.datasets if name in set(frame["dataset"])]
    of_dataset = {dataset: _rows(shown, pick(frame, dataset=dataset)) for dataset in datasets}
    heights = [ROW_HEIGHT * (len(rows) + 1) for rows in of_dataset.values()]
    drawn, axes = plt.subplots(
        len(datasets), len(POLICIES), figsize=(WIDTH, sum(heights) + FRAME_HEIGHT * (len(datasets) + 1)),
        squeeze=False, sharex="row", sharey="row", height_ratios=heights,
    )  # fmt: skip
    handles: dict[str, Any] = {}
    for panels, (dataset, rows) in zip(axes, of_dataset.items(), strict=True):
        model, values_of = rows[0].run, rows[0].of
        bounds = pick(of_run(everything, model), dataset=dataset, propensity=practical(values_of))
        references = of_run(pick(frame, dataset=dataset), model)
        for ax, policy in zip(panels, POLICIES, strict=True):
            _draw(ax, rows, policy)
            handles |= _draw_references(ax, references, policy)
            ax.set(title=shown.names.word(policy))
            ax.locator_params(axis="x", nbins=3)
        # Panels share their axis: its limits are known when all values are drawn.
        for ax, policy in zip(panels, POLICIES, strict=True):
            handles |= _draw_bounds(ax, pick(bounds, policy=policy))
        panels[0].set_yticks(range(len(rows)), [row.label for row in rows])
        panels[0].set(ylim=(len(rows) - 0.4, -0.6), ylabel=shown.label(dataset))
    for ax in axes[-1]:
        ax.set_xlabel("mean outcome a step")
    legend(drawn, handles, 3)
    first = dict.fromkeys(shown.names.run(rows[0].run) for rows in of_dataset.values())
    notes = told(
        shown,
        "Value of following a policy at one step of a logged history, with 95 % bootstrap intervals over owners, "
        f"stratified by client. Above the line: estimators, with the model of {' or '.join(first)}; below it: "
        "DR with the model of each other method (of variants in the csv of table_values). Dotted line: what the logged "
        "policy earned; solid line: the truth, where data are generated. Shaded: conservative bounds, which count what "
        "the log cannot show as failures below and as successes above. A cross at the left edge: no value, for lack of "
        "support. DM is the model's belief and needs no support. Propensities are logged ones; where there are none, "
        "and in generated data, estimates.",
    )
    return Figure(drawn, shown.caption, notes)


class Row(NamedTuple):
    """A line of the figure: what it is called, the run behind it, its values by policy, its look, whether a method."""

    label: str
    run: Run
    of: pd.DataFrame
    look: Look
    other: bool


def _rows(shown: Shown, of: pd.DataFrame) -> list[Row]:
    """The first method's estimators, then DR of all other methods."""
    there = [run for run in shown.compared if run in runs_in(of)]
    own = [run for run in there if run[1] == "base"] or there
    best, by_name = practical(of), dots(shown.compared)
    main = of_run(of, own[0])
    estimators = {name: pick(main, estimator=name, propensity=best) for name in SHOWN}
    rows = [
        Row(shown.names.word(name), own[0], each, by_name[own[0]], False)
        for name, each in estimators.items()
        if len(each)
    ]
    for run in own[1:]:
        robust = pick(of_run(of, run), estimator="dr", propensity=best)
        rows.append(Row(shown.names.run(run), run, robust, by_name[run], True))
    return rows


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
    """Shade a policy's bounds, as far as the axis goes for the values themselves."""
    known = of.set_index("metric")["ours_mean"]
    lower, upper = (known.get(name, np.nan) for name in BOUNDS)
    if np.isnan(lower):
        return {}
    limits = ax.get_xlim()
    handle = ax.axvspan(lower, upper, color="0.93", zorder=0)
    ax.set_xlim(limits)
    return {"bounds": handle}


def _draw(ax: Axes, rows: list[Row], policy: str) -> None:
    """Draw a policy's values with their intervals, one below the other."""
    for y, row in enumerate(rows):
        of = pick(row.of, policy=policy)
        if of.empty:
            continue
        value, lo, hi = of.iloc[0][["ours_mean", "lo", "hi"]]
        if np.isnan(value):
            ax.plot(0.02, y, "x", transform=ax.get_yaxis_transform(), color=row.look["color"], ms=5, clip_on=False)
            continue
        bars = [[max(value - lo, 0)], [max(hi - value, 0)]]
        ax.errorbar(value, y, xerr=bars, ms=4, lw=1, elinewidth=1, **row.look)
    others = [y for y, row in enumerate(rows) if row.other]
    if others:
        ax.axhline(others[0] - 0.5, color="0.7", lw=0.6)
    ax.grid(visible=False, axis="y")


def _draw_references(ax: Axes, of: pd.DataFrame, policy: str) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    earned = pick(of, estimator="on_policy", policy="logged")
    if len(earned):
        handles["logged policy"] = ax.axvline(earned["ours_mean"].iloc[0], color="0.4", ls=":", lw=1)
    truth = pick(of, prediction="truth", policy=policy)
    if len(truth):
        handles["truth"] = ax.axvline(truth["ours_mean"].iloc[0], color="0.25", lw=1.4, zorder=0.5)
    return handles
