"""Edges from distances, by the thresholded Gaussian kernel of DCRNN (Sec. 4, after Shuman et al. 2013)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.panels.panel import edge_table, no_edges
from fedloom.data.panels.readings import Readings
from fedloom.data.panels.settings import Graph
from fedloom.data.places import kilometres
from fedloom.errors import InputError


def graph_edges(readings: Readings, settings: Graph | None, ids: list[str]) -> pd.DataFrame:
    """Edges among the nodes ``ids``: those the raw files give, or by kernel from distances, or none.

    The kernel's scale is measured over all nodes that the official data have, so a part keeps the whole's weights.
    """
    listed = readings.values.columns if readings.positions is None else readings.positions.index
    known = [str(name) for name in listed]
    if settings is None:
        edges = no_edges() if readings.edges is None else readings.edges
        unknown = (set(edges["src"]) | set(edges["dst"])) - set(known)
        if unknown:
            raise InputError(f"edges: expected ends that are nodes, found {min(unknown)!r}")
        return _among(edge_table(edges["src"], edges["dst"], edges["weight"]), ids)
    distances = readings.distances if settings.distances == "table" else great_circle(readings.positions)
    if distances is None:
        raise InputError(f"panel: graph: distances: expected raw files with {settings.distances}, found none")
    inside = distances["src"].isin(known) & distances["dst"].isin(known)
    return _among(kernel_edges(distances[inside], settings), ids)


def kernel_edges(distances: pd.DataFrame, settings: Graph) -> pd.DataFrame:
    """Edges of the weight that ``settings`` say for finite distances, where that reaches the threshold; directed.

    Of several distances of one pair (PEMS08 lists some twice) the shortest counts.
    """
    distances = distances.sort_values("distance", kind="stable").drop_duplicates(["src", "dst"]).sort_index()
    d = distances["distance"].to_numpy(float)
    finite = np.isfinite(d) & (d <= (settings.max_distance or np.inf))
    sd = d[finite].std()
    weight = np.exp(-np.square(d / sd)) if settings.kernel == "gaussian" and sd > 0 else np.ones_like(d)
    # A weight too small for float32 is none, whatever the threshold.
    kept = finite & (weight >= max(settings.threshold, np.finfo(np.float32).tiny))
    return edge_table(distances["src"][kept], distances["dst"][kept], weight[kept])


def great_circle(positions: pd.DataFrame | None) -> pd.DataFrame | None:
    """Distances in km between all pairs of different nodes whose position is known."""
    if positions is None:
        return None
    placed = positions[positions[["lat", "lon"]].notna().all(axis=1)]
    matrix = kilometres(placed[["lat", "lon"]].to_numpy(dtype=np.float64))
    src, dst = np.nonzero(~np.eye(len(placed), dtype=bool))
    ids = placed.index.to_numpy(dtype=object)
    return pd.DataFrame({"src": ids[src], "dst": ids[dst], "distance": matrix[src, dst]})


def _among(edges: pd.DataFrame, ids: list[str]) -> pd.DataFrame:
    return edges[edges["src"].isin(ids) & edges["dst"].isin(ids)].reset_index(drop=True)
