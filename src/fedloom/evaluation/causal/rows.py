"""Metric rows of the causal family, before a run's identity is put on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedloom.evaluation.schema import IDENTITY, METRICS

NUMBER = ["unit", "metric", "horizon", "condition", "value", "lo", "hi", "n", "reason"]
"""Columns of a row: what it is a number of, the number, its interval, its count, and why it is null."""


def condition(**parts: object) -> str:
    """Return ``key=value`` pairs sorted and joined as the schema has them; a part that is None is left out."""
    return ",".join(f"{key}={value}" for key, value in sorted(parts.items()) if value is not None)


def row(
    metric: str,
    value: float,
    n: int,
    under: str = "",
    *,
    unit: str = "pooled",
    horizon: str = "all",
    lo: float = np.nan,
    hi: float = np.nan,
    reason: str | None = None,
) -> dict[str, Any]:
    """Return one metric row; ``under`` is its condition. A value that is no number needs a ``reason``."""
    return dict(zip(NUMBER, (unit, metric, horizon, under, float(value), lo, hi, int(n), reason), strict=True))


def as_metrics(rows: list[dict[str, Any]], spec: dict[str, Any], selection: str, split: str = "test") -> pd.DataFrame:
    """Return ``rows`` as the table of metrics has them, under the identity of the run that ``spec`` describes."""
    frame = pd.DataFrame(rows, columns=NUMBER)
    frame = frame.assign(**{name: spec[name] for name in IDENTITY}, split=split, selection=selection)
    types = {"seed": "int64", "n": "int64", "reason": "str", "value": "float64", "lo": "float64", "hi": "float64"}
    return frame[list(METRICS.columns)].astype(types)
