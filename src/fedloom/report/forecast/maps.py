"""Errors and the graph where the clients lie: hexagons by their borders, other clients as discs."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap, Normalize, TwoSlopeNorm
from numpy.typing import NDArray

from fedloom.data.panels.panel import read_panel
from fedloom.data.points.hexagons import borders
from fedloom.errors import InputError
from fedloom.report.captions import budget, told, units
from fedloom.report.figure import Figure, grid
from fedloom.report.forecast.accuracy import by_client
from fedloom.report.names import run_of
from fedloom.report.shown import Shown, of_run

ROW_HEIGHT = 2.7
DISC = np.linspace(0, 2 * np.pi, 40)


@dataclass(frozen=True)
class MapOptions:
    """``against``: the run that the gain is measured against."""

    against: str


def error_map(shown: Shown, options: MapOptions) -> Figure:
    """Draw, a row a dataset: the graph of the foremost method, its error by client, and what it gains on another."""
    ours, other = shown.ours, run_of(options.against)
    name, theirs = shown.names.run(ours), shown.names.run(other)
    graphs = {each: found for each in shown.datasets if (found := _edges(shown, each)) is not None}
    if not graphs:
        raise InputError(f"{shown.where}: expected a finished run of {name}, found none")
    drawn, axes = grid(len(graphs), 3, ROW_HEIGHT)
    for row, (dataset, edges) in zip(axes, graphs.items(), strict=True):
        nodes = read_panel(shown.places[dataset]).nodes
        placed = nodes[nodes[["lat", "lon"]].notna().all(axis=1)]
        shapes = outlines(placed)
        errors = by_client(shown, dataset, "mae").reindex(placed.index)
        _graph(row[0], nodes, shapes, edges)
        row[0].set(title="graph", ylabel=shown.label(dataset))
        worst = float(errors[ours].max())
        _fill(row[1], shapes, errors[ours], plt.get_cmap("viridis"), Normalize(0, worst), shown.names.word("mae"))
        row[1].set_title(name)
        if other in errors and errors[other].notna().any():
            gain = 100 * (1 - errors[ours] / errors[other])
            span = max(float(gain.abs().max()), 1e-9)
            _fill(row[2], shapes, gain, plt.get_cmap("RdBu"), TwoSlopeNorm(0, -span, span), "%")
            row[2].set_title(f"gain on {theirs}")
        else:
            row[2].set_axis_off()
        for ax in row:
            _frame(ax, shapes)
    notes = told(
        shown,
        "Left: who hears whom; a line joins clients of which one sends its codes to the other, thin where none come "
        "back; clients that lie nowhere, such as a weather service, are left out, and so are self loops. Middle: mean "
        "absolute error on the test part, mean over seeds. Right: by how many per cent it is smaller than that of "
        f"{theirs} (blue: sharing helps).",
        f"{units(shown)} Hexagons are cells of H3.",
        budget(shown),
    )
    return Figure(drawn, shown.caption, notes)


def outlines(nodes: pd.DataFrame) -> list[NDArray[np.float64]]:
    """Return the outline of each node as (lon, lat) [n, 2]: its hexagon, or a disc where its id is no cell of H3.

    Longitudes are continuous even where the nodes lie on both sides of the antimeridian.
    """
    shapes = borders([str(name) for name in nodes.index])
    if shapes is None:
        lat, lon = nodes["lat"].to_numpy(), nodes["lon"].to_numpy()
        radius = 0.06 * max(np.ptp(lat), np.ptp(lon), 1e-6)
        stretch = np.cos(np.radians(lat.mean()))
        disc = radius * np.stack([np.cos(DISC) / stretch, np.sin(DISC)], axis=1)
        shapes = [np.array([x, y]) + disc for x, y in zip(lon, lat, strict=True)]
    lon = np.concatenate([shape[:, 0] for shape in shapes])
    if np.ptp(lon) > 180:
        shapes = [np.stack([shape[:, 0] % 360, shape[:, 1]], axis=1) for shape in shapes]
    return shapes


def _edges(shown: Shown, dataset: str) -> NDArray[np.int32] | None:
    """Return the graph of the foremost method, which no seed changes; None where no run of it finished."""
    runs = shown.runs[(shown.runs["dataset"] == dataset) & (shown.runs["verdict"] == "finished")]
    of = of_run(runs, shown.ours)
    return None if of.empty else shown.diagnostics(of["folder"].iloc[0])["edges"]


def _graph(ax: Axes, nodes: pd.DataFrame, shapes: list[NDArray[np.float64]], edges: NDArray[np.int32]) -> None:
    placed = np.flatnonzero(nodes[["lat", "lon"]].notna().all(axis=1).to_numpy())
    middle = dict(zip(placed.tolist(), (shape[:-1].mean(axis=0) for shape in shapes), strict=True))
    pairs = {(a, b) for a, b in edges.T.tolist() if a != b and a in middle and b in middle}
    both = sorted((a, b) for a, b in pairs if (b, a) in pairs and a < b)
    single = sorted((a, b) for a, b in pairs if (b, a) not in pairs)
    ax.add_collection(PolyCollection(shapes, facecolors="0.93", edgecolors="0.7", linewidths=0.4))
    for chosen, width in ((both, 1.0), (single, 0.4)):
        ax.add_collection(LineCollection([[middle[a], middle[b]] for a, b in chosen], colors="C0", linewidths=width))
    ax.plot(*np.array(list(middle.values())).T, ".", color="0.2", ms=2)


def _fill(
    ax: Axes, shapes: list[NDArray[np.float64]], values: pd.Series, colours: Colormap, norm: Normalize, unit: str
) -> None:
    fill = PolyCollection(shapes, array=values.to_numpy(), cmap=colours, norm=norm, edgecolors="0.6", linewidths=0.3)
    ax.add_collection(fill)
    bar = ax.figure.colorbar(fill, ax=ax, shrink=0.8)
    bar.ax.set_title(unit, fontsize="small")


def _frame(ax: Axes, shapes: list[NDArray[np.float64]]) -> None:
    every = np.concatenate(shapes)
    ax.update_datalim(every)
    ax.autoscale_view()
    ax.set_aspect(1 / np.cos(np.radians(every[:, 1].mean())))
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
