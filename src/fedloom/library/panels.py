"""A panel from what a user has at hand: a table in memory, a CSV file, or the folder of a panel built before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedloom.data.panels.build import clean_panel
from fedloom.data.panels.panel import Panel, read_panel
from fedloom.data.panels.readings import Readings
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.raw import Raw
from fedloom.data.stamps import parse_stamps
from fedloom.data.tables import numbers, read_wide
from fedloom.errors import InputError


def load_panel(
    source: pd.DataFrame | Path | str,
    *,
    name: str = "mine",
    unit: str = "units",
    interval_minutes: int | None = None,
    missing: float | None = None,
    timezone: str | None = None,
    nodes: pd.DataFrame | None = None,
    edges: pd.DataFrame | None = None,
    features: pd.DataFrame | None = None,
) -> Panel:
    """The checked panel of ``source``, on a regular time axis.

    A table has one row a step, stamps as its index and one column a sensor; a CSV file has the stamps in its first
    column; a folder is a panel that a pipeline built, and is taken as it is. Stamps (ISO 8601, as text) are local time;
    those with an offset are brought to the clock of ``timezone``, or to UTC without one. ``timezone`` also says which
    hours a clock skips and repeats. ``interval_minutes`` is the most frequent distance of two stamps where it is not
    given; ``missing`` is what stands for a missing reading beside an empty cell. ``nodes``: index of ids, ``lat``,
    ``lon``; ``edges``: ``src``, ``dst``, ``weight``; ``features``: stamps as index, covariates as columns (``name``, or
    ``name/{sensor}`` of one sensor's own).

    Raises InputError for readings that cannot be brought onto a regular axis, or ends of edges that are no sensors.
    """
    if isinstance(source, pd.DataFrame):
        values = numbers(stamped(source, name).rename(columns=str), Path(name))
    elif not isinstance(source, Path | str):
        raise InputError(f"{name}: expected a table, a CSV file or the folder of a panel, found a {named(source)}")
    elif Path(source).is_dir():
        return read_panel(Path(source))
    elif Path(source).is_file():
        values = read_wide(Raw(Path(source), "csv"))
    else:
        raise InputError(f"{source}: expected a table, a CSV file or the folder of a panel, found nothing there")
    if len(values) < 2:
        raise InputError(f"{name}: expected at least two rows, found {len(values)}")
    every = interval_minutes or _interval(values.index, name)
    settings = PanelSettings(
        dataset=name, unit=unit, interval_minutes=every, missing=missing, timezone=timezone, reader="csv"
    )
    known = None if features is None else stamped(features, f"{name}: features")
    return clean_panel(Readings(values, nodes, edges=edges, features=known), settings)


def stamped(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """``table`` with its index as stamps. Raises InputError, which calls it ``name``, for an index of anything else."""
    return table.set_axis(parse_stamps(pd.Series(table.index), Path(name)), axis=0)


def named(value: object) -> str:
    """What a message calls ``value``: the name of its type."""
    return type(value).__name__


def _interval(stamps: pd.Index, name: str) -> int:
    apart = np.diff(np.unique(pd.DatetimeIndex(stamps).asi8))
    if not len(apart):
        raise InputError(f"{name}: stamps: expected at least two different ones, found {stamps[0]} alone")
    minutes = pd.Timedelta(pd.Series(apart).mode().iloc[0]) / pd.Timedelta(minutes=1)
    if minutes < 1 or minutes % 1:
        raise InputError(f"{name}: stamps: expected whole minutes apart, found {minutes:g} minutes")
    return int(minutes)
