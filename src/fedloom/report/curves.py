"""Validation error by round and by megabyte sent up: what learning costs in time and in traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, MaxNLocator

from fedloom.report.captions import told
from fedloom.report.figure import MEGABYTE, Figure, Look, banded, grid, legend, looks
from fedloom.report.names import Run
from fedloom.report.shown import Shown, of_federation

ROW_HEIGHT, LEGEND_HEIGHT = 2.5, 0.5
SMALL_ROW, SMALL_LEGEND = 2.2, 0.9
FOREMOST_WIDTH = 2.4


@dataclass(frozen=True)
class CurveOptions:
    """``quantity`` is one that the rounds log for the whole federation, ``label`` what it is called in print."""

    label: str
    quantity: str = "validation_score"


@dataclass(frozen=True)
class ColumnOptions:
    """``columns``: title of a column of panels -> the groups of methods that it shows; ``against``: what x counts."""

    label: str
    columns: dict[str, tuple[str, ...]]
    against: Literal["round", "megabyte"] = "round"
    quantity: str = "validation_score"


@dataclass(frozen=True)
class Curve:
    """Error of a method over its rounds: mean, least and largest over seeds, and megabytes sent so far.

    The index of ``error`` (columns mean, least, largest) is the number of finished rounds; ``sent`` [rounds] counts
    the uploads of all clients together.
    """

    error: pd.DataFrame
    sent: pd.Series

    @property
    def trained(self) -> bool:
        """Whether there is more than one point to draw a line through."""
        return len(self.error) > 1


def curves(shown: Shown, options: CurveOptions) -> Figure:
    """Draw, a row a dataset, a logged quantity by round (left) and by megabyte sent up by the federation (right)."""
    datasets = shown.datasets
    drawn, axes = grid(len(datasets), 2, ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    styles = looks(shown.compared)
    for place, look in enumerate(styles.values()):
        look["zorder"] = 3 - place / len(styles)  # the foremost run lies above all others
    handles: dict[str, Line2D] = {}
    for (by_round, by_megabyte), dataset in zip(axes, datasets, strict=True):
        found = {run: curve(shown, dataset, run, options.quantity) for run in styles}
        present = {run: value for run, value in found.items() if value is not None}
        for run, value in present.items():
            handles[shown.names.run(run)] = _by_round(by_round, value, styles[run])
            _by_megabyte(by_megabyte, value, styles[run])
        _limit(by_round, list(present.values()))
        by_round.set(
            title=shown.label(dataset), ylabel=_measured(shown, dataset, options.label), xlabel=_AXES["round"][1]
        )
        by_megabyte.set(xlabel=_AXES["megabyte"][1])
    legend(drawn, handles, 4)
    notes = told(
        shown,
        f"{_read(options.label)} Right: against the megabytes (10⁶ bytes) that all clients together have sent up; a "
        "method that sends nothing is a level line at its least error. First rounds may lie above the frame.",
    )
    return Figure(drawn, shown.caption, notes)


def curves_by_group(shown: Shown, options: ColumnOptions) -> Figure:
    """Draw a logged quantity in small panels: a row a dataset, a column a choice of groups with a legend of its own.

    The method that the study proposes is in every panel; a column of which nothing else is shown is left out, unless
    that leaves none. Raises InputError for a group that no method has.
    """
    columns: dict[str, list[Run]] = {}
    for title, groups in options.columns.items():
        shown.names.require_groups(groups, f"{shown.where}: options.columns.{title}")
        columns[title] = [run for run in shown.compared if run == shown.ours or shown.names.group_of(run) in groups]
    columns = {title: runs for title, runs in columns.items() if runs != [shown.ours]} or columns
    draw, axis = _AXES[options.against]
    drawn, axes = grid(len(shown.datasets), len(columns), SMALL_ROW, SMALL_LEGEND, sharex="row", sharey="row")
    for column, (title, runs) in enumerate(columns.items()):
        handles: dict[str, Line2D] = {}
        for ax, dataset in zip(axes[:, column], shown.datasets, strict=True):
            for run, look in looks(runs).items():
                value = curve(shown, dataset, run, options.quantity)
                if value is not None:
                    first = {"linewidth": FOREMOST_WIDTH, "zorder": 3} if run == shown.ours else {}
                    handles[shown.names.run(run)] = draw(ax, value, look | first)
        axes[0, column].set_title(title)
        below = axes[-1, column]
        below.set_xlabel(axis)
        below.legend(list(handles.values()), list(handles), loc="upper center", bbox_to_anchor=(0.45, -0.25), ncols=2)
    for row, dataset in zip(axes, shown.datasets, strict=True):
        found = [curve(shown, dataset, run, options.quantity) for run in shown.compared]
        _limit(row[0], [value for value in found if value is not None])
        row[0].set_ylabel(f"{shown.label(dataset)}\n{_measured(shown, dataset, options.label)}")
    notes = told(
        shown,
        f"{_read(options.label)} Every column has a legend of its own, and {shown.names.run(shown.ours)} as its thick "
        "line.",
        "A method that sends nothing is a level line at its least error." if options.against == "megabyte" else "",
        "First rounds may lie above the frame.",
    )
    return Figure(drawn, shown.caption, notes)


def curve(shown: Shown, dataset: str, run: Run, quantity: str) -> Curve | None:
    """Return the curve of a method's variant on a dataset; None where none of its runs logged ``quantity``."""
    logs = [shown.rounds(folder) for folder in shown.folders_of(dataset, run).values()]
    return over_seeds([of_federation(log, quantity) for log in logs], logs)


def over_seeds(values: list[pd.Series], logs: list[pd.DataFrame]) -> Curve | None:
    """Return the curve of the values by round (from 0) and the log of each seed's run; None without any value."""
    if not any(len(value) for value in values):
        return None
    seeds = pd.concat(values, axis=1)
    error = pd.DataFrame({"mean": seeds.mean(axis=1), "least": seeds.min(axis=1), "largest": seeds.max(axis=1)})
    sent = [log[log["quantity"] == "bytes_up"].groupby("round")["value"].sum() for log in logs]
    total = pd.concat(sent, axis=1).mean(axis=1).cumsum() / MEGABYTE
    error.index = error.index + 1
    total.index = total.index + 1
    return Curve(error, total.reindex(error.index))


def _by_round(ax: Axes, value: Curve, look: Look) -> Line2D:
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if value.trained:
        return banded(ax, value.error.index, value.error, look)
    return ax.axhline(value.error["mean"].min(), **look)


def _by_megabyte(ax: Axes, value: Curve, look: Look) -> Line2D:
    if not value.trained or value.sent.iloc[-1] == 0:
        return ax.axhline(value.error["mean"].min(), **look)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    # Labels of minor ticks where the axis spans less than a decade.
    ax.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    return banded(ax, value.sent, value.error, look)


_AXES = {"round": (_by_round, "round"), "megabyte": (_by_megabyte, "sent up by all clients (MB)")}


def _measured(shown: Shown, dataset: str, label: str) -> str:
    """The label with the dataset's unit; series are judged on a scale of their own and have none."""
    unit = shown.panels[dataset].get("unit")
    return f"{label} ({unit})" if unit else label


def _read(label: str) -> str:
    """How lines and bands are read."""
    return (
        f"{label[0].upper()}{label[1:]}, missing readings left out, after each round; line: mean over seeds, band: "
        "least to largest."
    )


def _limit(axes: Axes, found: list[Curve]) -> None:
    """Frame what happens after the first tenth of the rounds, which would dwarf the rest."""
    settled = [value.error["mean"].iloc[len(value.error) // 10 :] for value in found]
    if settled:
        low, high = min(s.min() for s in settled), max(s.max() for s in settled)
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)
