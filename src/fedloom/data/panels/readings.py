"""What a reader, or a generator, makes of a panel's raw files, not yet cleaned."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Readings:
    """Readings of many places on any time axis, and what is known of the places.

    values: index of stamps, naive in local time or in UTC, one column a node, raw values.
    positions: index of node ids, ``lat`` and ``lon`` in degrees; it lists every node that the official data have.
    distances: ``src``, ``dst``, ``distance`` in the unit of the raw file, directed.
    edges: ``src``, ``dst``, ``weight`` where the raw files give the graph itself.
    features: covariates on stamps of their own, naive or in UTC; columns ``name`` or ``name/{node}``.
    kept_out: how many raw records the reader left out or mended, by reason.
    """

    values: pd.DataFrame
    positions: pd.DataFrame | None = None
    distances: pd.DataFrame | None = None
    edges: pd.DataFrame | None = None
    features: pd.DataFrame | None = None
    kept_out: dict[str, int] = field(default_factory=dict)
