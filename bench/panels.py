"""A panel of any size, for what reads or judges one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.panels.panel import Panel, no_edges


def noisy_panel(nodes: int, steps: int) -> Panel:
    """Noisy readings every five minutes."""
    stamps = pd.date_range("2017-01-01", periods=steps, freq="5min", name="timestamp")
    readings = np.random.default_rng(0).normal(60, 10, (steps, nodes)).astype(np.float32)
    ids = [f"n{i:03d}" for i in range(nodes)]
    places = pd.DataFrame({"lat": 0.0, "lon": 0.0}, index=pd.Index(ids, name="id"))
    about = {
        "dataset": "bench", "part": "all", "unit": "mph", "interval_minutes": 5, "missing_literal": None,
        "rows": steps, "nodes": nodes, "missing_share": 0.0, "repairs": {},
    }  # fmt: skip
    return Panel(pd.DataFrame(readings, index=stamps, columns=ids), places, no_edges(), about=about)
