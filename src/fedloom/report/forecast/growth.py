"""How models and traffic grow with the federation, against the law that a fixed number of neighbours promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedloom.errors import InputError
from fedloom.report.captions import budget, told
from fedloom.report.costs import mean_costs
from fedloom.report.figure import MEGABYTE, Figure, Look, dots, grid, legend
from fedloom.report.shown import Shown, of_run

HEIGHT = 3.4
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
    styles = dots(shown.compared)
    drawn, axes = grid(1, len(PANELS), HEIGHT)
    handles: dict[str, Line2D] = {}
    said: list[str] = []
    for ax, (quantity, label, unit) in zip(axes[0], PANELS, strict=True):
        residuals = []
        for run, look in styles.items():
            of = of_run(frame, run).sort_values("clients")
            line = fit(of["clients"].to_numpy(), of[quantity].to_numpy())
            handles[shown.names.run(run)] = _draw(ax, of, quantity, unit, line, look)
            residuals.append(f"{shown.names.run(run)} {line.residual:.1%}")
        ax.set(xlabel="clients", ylabel=label, xticks=sorted(set(frame["clients"])))
        ax.set_ylim(bottom=-0.03 * frame[quantity].max() / unit)
        said.append(f"{label.partition(' (')[0]}: {', '.join(residuals)}")
    legend(drawn, handles, len(handles))
    notes = told(
        shown,
        "Points: mean over seeds. Lines: the law 'a constant and as much again for every client' fitted by least "
        f"squares; its largest residual as a share of the largest size: {'; '.join(said)}.",
        budget(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _draw(ax: Axes, of: pd.DataFrame, quantity: str, unit: float, line: Line, look: Look) -> Line2D:
    clients = np.linspace(of["clients"].min(), of["clients"].max(), 50)
    ax.plot(clients, (line.slope * clients + line.level) / unit, color=look["color"], lw=1, ls="--")
    (points,) = ax.plot(of["clients"], of[quantity] / unit, ms=5, **look)
    return points
