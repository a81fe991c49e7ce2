"""How models and traffic grow with the federation, against the law that a fixed number of neighbours promises."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedloom.errors import InputError
from fedloom.report.costs import budget, mean_costs
from fedloom.report.curves import MEGABYTE, looks
from fedloom.report.figure import Figure
from fedloom.report.labels import run_label
from fedloom.report.shown import Shown

WIDTH, HEIGHT = 7.2, 3.4
MARKERS = ("o", "s", "^", "D", "v", "P")
PANELS = (
    ("total", "numbers of all models (million)", 1e6),
    ("epoch_bytes", "sent by all clients in an epoch (MB)", MEGABYTE),
)


@dataclass(frozen=True)
class Line:
    """The law ``size = slope * clients + level`` fitted by least squares.

    ``residual``: the largest distance of a point from it, as a share of the largest size.
    """

    slope: float
    level: float
    residual: float


def fit(clients: np.ndarray, sizes: np.ndarray) -> Line:
    """Fit the linear law to sizes [n] at numbers of clients [n]. Raises InputError below three points."""
    if len(set(clients.tolist())) < 3:
        raise InputError(f"growth: expected at least 3 numbers of clients, found {sorted(set(clients.tolist()))}")
    slope, level = np.polyfit(clients, sizes, 1)
    distance = np.abs(sizes - (slope * clients + level)).max()
    return Line(float(slope), float(level), float(distance / np.abs(sizes).max()) if sizes.any() else 0.0)


def growth(shown: Shown) -> Figure:
    """Draw model size (left) and traffic (right) against the number of clients, with the linear law through each."""
    frame = mean_costs(shown)
    names = list(dict.fromkeys(zip(frame["method"], frame["variant"], strict=True)))
    drawn, axes = plt.subplots(1, len(PANELS), figsize=(WIDTH, HEIGHT))
    handles: dict[str, Line2D] = {}
    said: list[str] = []
    for ax, (quantity, label, unit) in zip(axes, PANELS, strict=True):
        residuals = []
        for name, look, marker in zip(names, looks(len(names)), cycle(MARKERS), strict=False):
            of = frame[(frame["method"] == name[0]) & (frame["variant"] == name[1])].sort_values("clients")
            line = fit(of["clients"].to_numpy(), of[quantity].to_numpy())
            handles[run_label(*name)] = _draw(ax, of, quantity, unit, line, look["color"], marker)
            residuals.append(f"{run_label(*name)} {line.residual:.1%}")
        ax.set(xlabel="clients", ylabel=label, xticks=sorted(set(frame["clients"])))
        ax.set_ylim(bottom=-0.03 * frame[quantity].max() / unit)
        said.append(f"{label.partition(' (')[0]}: {', '.join(residuals)}")
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles))
    notes = (
        "Points: mean over seeds. Lines: the law 'a constant and as much again for every client' fitted by least "
        f"squares; its largest residual as a share of the largest size: {'; '.join(said)}. Central LSTM collects "
        "all readings once and sends nothing after, Local LSTM never sends anything. SplitVFL hears 39 others, or all "
        "of a smaller federation. "
        f"{budget(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def _draw(ax: Axes, of: pd.DataFrame, quantity: str, unit: float, line: Line, colour: str, marker: str) -> Line2D:
    clients = np.linspace(of["clients"].min(), of["clients"].max(), 50)
    ax.plot(clients, (line.slope * clients + line.level) / unit, color=colour, lw=1, ls="--")
    (points,) = ax.plot(of["clients"], of[quantity] / unit, marker, color=colour, ms=5)
    return points
