"""Readings to forecast from, brought onto the axis that the model was trained on, by the same repairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedloom.data.panels.clean import null_missing, regular
from fedloom.data.panels.panel import Panel
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.tables import numbers
from fedloom.errors import InputError
from fedloom.library.panels import named, stamped

NAME = "readings"


def recent_values(readings: object, clients: list[str], trained: Panel, history: int) -> pd.DataFrame:
    """``readings`` of the sensors ``clients`` on a regular axis, [S, C] float32, NaN where missing; S >= ``history``.

    A table is treated as the data of training were: rows sorted, absent steps inserted, what stands for a missing
    reading taken out. A panel has been through that.

    Raises InputError for anything but a panel or a table with stamps as its index, an absent sensor, another interval,
    fewer steps than ``history`` or no reading among the last of them.
    """
    minutes = int(trained.about["interval_minutes"])
    if isinstance(readings, Panel):
        found = int(readings.about["interval_minutes"])
        if found != minutes:
            raise InputError(f"{NAME}: interval: expected {minutes} minutes as in training, found {found}")
        values = _of(readings.values, clients)
    elif isinstance(readings, pd.DataFrame):
        table = numbers(_of(_local(readings, NAME).rename(columns=str), clients), Path(NAME))
        if table.empty:
            raise InputError(f"{NAME}: rows: expected at least {history}, found 0")
        axis = PanelSettings(NAME, str(trained.about["unit"]), minutes, reader="csv")
        values = null_missing(regular(table, axis)[0], trained.about["missing_literal"])
    else:
        raise InputError(f"{NAME}: expected a panel or a table with stamps as its index, found a {named(readings)}")
    if len(values) < history:
        raise InputError(f"{NAME}: rows: expected at least {history}, found {len(values)}")
    if np.isnan(values.to_numpy()[-history:]).all():
        raise InputError(f"{NAME}: expected a reading among the last {history} steps, found none")
    return values


def known_covariates(readings: object, covariates: object) -> pd.DataFrame:
    """Covariates by stamp: ``covariates``, or those of a panel of readings, or a table without columns.

    Raises InputError for anything but a table with stamps as its index.
    """
    if covariates is None:
        return readings.features if isinstance(readings, Panel) else pd.DataFrame(index=pd.DatetimeIndex([]))
    if not isinstance(covariates, pd.DataFrame):
        raise InputError(f"covariates: expected a table with stamps as its index, found a {named(covariates)}")
    table = _local(covariates, "covariates")
    return table[~table.index.duplicated()]


def _of(values: pd.DataFrame, clients: list[str]) -> pd.DataFrame:
    absent = [name for name in clients if name not in values.columns]
    if absent:
        raise InputError(f"{NAME}: columns: expected every sensor of the run, found no {absent[0]!r}")
    return values[clients]


def _local(table: pd.DataFrame, name: str) -> pd.DataFrame:
    table = stamped(table, name)
    zone = pd.DatetimeIndex(table.index).tz
    if zone is not None:
        raise InputError(f"{name}: stamps: expected local time as in the panel, found offsets from UTC")
    return table
