"""Validation error by round and by megabyte sent up: what learning costs in time and in traffic."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, MaxNLocator

from fedloom.report.captions import told
from fedloom.report.figure import MEGABYTE, Figure, Look, banded, grid, legend, looks
from fedloom.report.names import Run
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.5, 0.5


@dataclass(frozen=True)
class CurveOptions:
    """``quantity`` is one that the rounds log for the whole federation, ``label`` what it is called in print."""

    label: str
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
    datasets, label = shown.datasets, options.label
    drawn, axes = grid(len(datasets), 2, ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    styles = looks(shown.compared)
    for place, look in enumerate(styles.values()):
        look["zorder"] = 3 - place / len(styles)  # the foremost run lies above all others
    handles: dict[str, Line2D] = {}
    for (by_round, by_megabyte), dataset in zip(axes, datasets, strict=True):
        found = {run: curve(shown, dataset, run, options.quantity) for run in styles}
        present = {run: value for run, value in found.items() if value is not None}
        for run, value in present.items():
            handles[shown.names.run(run)] = _draw(by_round, by_megabyte, value, styles[run])
        by_round.xaxis.set_major_locator(MaxNLocator(integer=True))
        _limit(by_round, list(present.values()))
        # Series are judged on a scale of their own.
        unit = shown.panels[dataset].get("unit")
        by_round.set(title=shown.label(dataset), ylabel=f"{label} ({unit})" if unit else label, xlabel="round")
        by_megabyte.set(xlabel="sent up by all clients (MB)")
    legend(drawn, handles, 4)
    notes = told(
        shown,
        f"{label[0].upper()}{label[1:]}, missing readings left out, after each round; line: mean over seeds, band: "
        "least to largest. Right: against the megabytes (10⁶ bytes) that all clients together have sent up; a method "
        "that sends nothing is a level line at its least error. First rounds may lie above the frame.",
    )
    return Figure(drawn, shown.caption, notes)


def curve(shown: Shown, dataset: str, run: Run, quantity: str) -> Curve | None:
    """Return the curve of a method's variant on a dataset; None where none of its runs logged ``quantity``."""
    logs = [shown.rounds(folder) for folder in shown.folders_of(dataset, run).values()]
    values = [log[(log["quantity"] == quantity) & (log["client"] == "all")].set_index("round")["value"] for log in logs]
    return over_seeds(values, logs)


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


def _draw(by_round: Axes, by_megabyte: Axes, value: Curve, look: Look) -> Line2D:
    error = value.error
    level = error["mean"].min()
    line = banded(by_round, error.index, error, look) if value.trained else by_round.axhline(level, **look)
    if value.trained and value.sent.iloc[-1] > 0:
        banded(by_megabyte, value.sent, error, look)
        by_megabyte.set_xscale("log")
        by_megabyte.xaxis.set_major_formatter("{x:g}")
        # Labels of minor ticks where the axis spans less than a decade.
        by_megabyte.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    else:
        by_megabyte.axhline(level, **look)
    return line


def _limit(axes: Axes, found: list[Curve]) -> None:
    """Frame what happens after the first tenth of the rounds, which would dwarf the rest."""
    settled = [value.error["mean"].iloc[len(value.error) // 10 :] for value in found]
    if settled:
        low, high = min(s.min() for s in settled), max(s.max() for s in settled)
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)
