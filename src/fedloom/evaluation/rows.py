"""How metric rows are made: what a number is of, the number, its mean over clients; and the run's identity on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.evaluation.schema import IDENTITY, METRICS

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row] | pd.DataFrame
"""Rows before a run's identity is put on them; a frame may lack columns of an interval."""

NUMBER = ["unit", "metric", "horizon", "condition", "value", "lo", "hi", "n", "reason"]
"""Columns of a row: what it is a number of, the number, its interval, its count, and why it is null."""

DRAWN = "drawn"
"""Key under which a row may hold bootstrap draws of its number, which no table of metrics has."""


def condition(**parts: object) -> str:
    """Return ``key=value`` pairs sorted and joined as the schema has them; a part that is None is left out."""
    return ",".join(f"{key}={value}" for key, value in sorted(parts.items()) if value is not None)


def parts_of(under: str) -> dict[str, str]:
    """Return the parts of the condition ``under`` by their keys; none of an empty one."""
    return dict(part.split("=", 1) for part in under.split(",")) if under else {}


def narrowed(under: str, **parts: object) -> str:
    """Return the condition ``under`` with further parts."""
    return condition(**parts_of(under), **parts)


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
) -> Row:
    """Return one metric row; ``under`` is its condition. A value that is no number needs a ``reason``."""
    return dict(zip(NUMBER, (unit, metric, horizon, under, float(value), lo, hi, int(n), reason), strict=True))


def mean_row(
    metric: str, values: Sequence[float], under: str, missing: str, *, unit: str = "mean", horizon: str = "all"
) -> Row:
    """Return the row of the mean of those ``values`` that are no NaN, ``n`` of them; null for ``missing`` without."""
    known = [value for value in values if not np.isnan(value)]
    mean = float(np.mean(known)) if known else np.nan
    return row(metric, mean, len(known), under, unit=unit, horizon=horizon, reason=None if known else missing)


def client_rows(
    metric: str, values: Sequence[float], counts: Sequence[int], clients: Sequence[str], under: str, missing: str
) -> list[Row]:
    """Return a row a client, null for ``missing`` where the value is NaN, and the row of their mean."""
    rows = [
        row(metric, value, n, under, unit=client, reason=missing if np.isnan(value) else None)
        for client, value, n in zip(clients, values, counts, strict=True)
    ]
    return [*rows, mean_row(metric, values, under, missing)]


def taken(rows: Iterable[Row]) -> dict[str, NDArray[Any]]:
    """Take the draws out of rows, and return them by ``draws_key``."""
    found = {}
    for row in rows:
        drawn = row.pop(DRAWN, None)
        if drawn is not None:
            found[draws_key(row)] = drawn.astype(np.float32)
    return found


def draws_key(row: Mapping[str, Any]) -> str:
    """Return under which name the draws of a number are kept."""
    return "/".join(("draws", *(str(row[name]) for name in ("unit", "metric", "horizon", "condition"))))


def as_metrics(rows: Rows, spec: dict[str, Any], selection: str) -> pd.DataFrame:
    """Return ``rows`` as the table of metrics has them, under the identity of the run that ``spec`` describes.

    They are of the weights of ``selection``, on the test part.
    """
    frame = pd.DataFrame(rows).reindex(columns=NUMBER)
    frame = frame.assign(**{name: spec[name] for name in IDENTITY}, split="test", selection=selection)
    types = {"seed": "int64", "n": "int64", "reason": "str", "value": "float64", "lo": "float64", "hi": "float64"}
    return frame[list(METRICS.columns)].astype(types)
