"""Validation error by round and by megabyte sent up: what learning costs in time and in traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, MaxNLocator

from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.shown import Shown
from fedloom.report.summary import ROW

MEGABYTE = 1e6
WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.5, 0.5
MARKERS = ("", "o", "s", "^")


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


def curves(shown: Shown, quantity: str, label: str) -> Figure:
    """Draw, a row a dataset, ``quantity`` by round (left) and by megabyte sent up by the federation (right).

    ``quantity`` is one that the rounds log for the whole federation, ``label`` what it is called in print.
    """
    datasets = shown.datasets
    height = ROW_HEIGHT * len(datasets) + LEGEND_HEIGHT
    drawn, axes = plt.subplots(len(datasets), 2, figsize=(WIDTH, height), squeeze=False, sharey="row")
    names = list(dict.fromkeys(zip(shown.runs["method"], shown.runs["variant"], strict=True)))
    styles = dict(zip(names, looks(len(names)), strict=True))
    handles: dict[str, Line2D] = {}
    for (by_round, by_megabyte), dataset in zip(axes, datasets, strict=True):
        found = {(method, variant): curve(shown, dataset, method, variant, quantity) for method, variant in names}
        present = {name: value for name, value in found.items() if value is not None}
        for name, value in present.items():
            handles[run_label(*name)] = _draw(by_round, by_megabyte, value, styles[name])
        by_round.xaxis.set_major_locator(MaxNLocator(integer=True))
        _limit(by_round, list(present.values()))
        # Series are judged on a scale of their own.
        unit = shown.panels[dataset].get("unit")
        by_round.set(title=shown.label(dataset), ylabel=f"{label} ({unit})" if unit else label, xlabel="round")
        by_megabyte.set(xlabel="sent up by all clients (MB)")
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=min(len(handles), 4))
    notes = (
        f"{label[0].upper()}{label[1:]}, missing readings left out, after each round; line: mean over seeds, band: "
        "least to largest. Right: against the megabytes (10⁶ bytes) that all clients together have sent up; a method "
        f"that sends nothing is a level line at its least error. First rounds may lie above the frame. {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def looks(count: int) -> list[dict[str, Any]]:
    """Return a colour and line style each; lines that come round to the same ones get a marker."""
    cycle = list(plt.rcParams["axes.prop_cycle"])
    return [{**cycle[i % len(cycle)], "marker": MARKERS[i // len(cycle) % len(MARKERS)]} for i in range(count)]


def curve(shown: Shown, dataset: str, method: str, variant: str, quantity: str) -> Curve | None:
    """Return the curve of a method's variant on a dataset; None where none of its runs logged ``quantity``."""
    runs = shown.runs
    folders = runs.loc[(runs[ROW] == [dataset, method, variant]).all(axis=1), "folder"]
    logs = [shown.rounds(folder) for folder in folders]
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


def _draw(by_round: Axes, by_megabyte: Axes, value: Curve, look: dict[str, Any]) -> Line2D:
    error = value.error
    level = error["mean"].min()
    if value.trained:
        (line,) = by_round.plot(error.index, error["mean"], **look)
        by_round.fill_between(error.index, error["least"], error["largest"], color=look["color"], alpha=0.15, lw=0)
    else:
        line = by_round.axhline(level, **look)
    if value.trained and value.sent.iloc[-1] > 0:
        by_megabyte.plot(value.sent, error["mean"], **look)
        by_megabyte.fill_between(value.sent, error["least"], error["largest"], color=look["color"], alpha=0.15, lw=0)
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
