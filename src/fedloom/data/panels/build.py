"""From settings and raw files to a checked panel."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from fedloom.data.panels.areas import generate_areas
from fedloom.data.panels.clean import null_missing, regular
from fedloom.data.panels.clients import combined, with_horizons, with_passive
from fedloom.data.panels.graph import graph_edges
from fedloom.data.panels.panel import Panel
from fedloom.data.panels.readers import READERS
from fedloom.data.panels.readings import Readings
from fedloom.data.panels.regimes import generate
from fedloom.data.panels.settings import PanelSettings, Select
from fedloom.data.points.blocks import Progress, Tally
from fedloom.data.points.hexagons import hexagon_table
from fedloom.data.points.readers import READERS as POINT_READERS
from fedloom.data.points.readers import generated_points
from fedloom.data.raw import RawFolder
from fedloom.data.stamps import on_clock
from fedloom.errors import InputError


def build_panel(settings: PanelSettings, raw: Path, progress: Progress = lambda points, share: None) -> Panel:
    """Return the panel that ``settings`` describe; ``raw`` is the folder of the dataset's raw files.

    ``progress`` hears of every block of points that is counted. Raises InputError for raw files that are missing,
    damaged or not what the settings say.
    """
    if settings.regimes is not None:
        panel = generate(settings.regimes, settings.dataset)
        return dataclasses.replace(panel, about=panel.about | {"part": settings.part, "unit": settings.unit})
    return clean_panel(_readings(settings, RawFolder(raw), progress), settings)


def clean_panel(readings: Readings, settings: PanelSettings) -> Panel:
    """Return the panel of ``readings`` on a regular axis, with what ``settings`` say of nodes, graph and covariates.

    Stamps in UTC are brought to the clock of ``settings.timezone``, and stay UTC's where none is named.

    Raises InputError for readings that are not what the settings say.
    """
    readings = _on_one_clock(readings, settings.timezone)
    readings = with_passive(combined(readings, settings.combine, settings.dataset), settings.passive, settings.dataset)
    readings = with_horizons(readings, settings.horizons, settings.dataset)
    values, repairs = regular(readings.values, settings)
    repairs = readings.kept_out | repairs
    values = null_missing(values, settings.missing)
    values = _select(values, settings.select, settings.dataset, repairs)
    empty = [str(name) for name, count in values.count().items() if count == 0]
    if empty:
        raise InputError(f"{settings.dataset}: node {empty[0]}: expected readings, found none in {len(values)} steps")
    ids = [str(name) for name in values.columns]
    return Panel(
        values=values,
        nodes=_nodes(readings, ids, settings.dataset),
        edges=graph_edges(readings, settings.graph, ids),
        features=_features(readings, values),
        about={
            "dataset": settings.dataset,
            "part": settings.part,
            "unit": settings.unit,
            "interval_minutes": settings.interval_minutes,
            "missing_literal": settings.missing,
            "rows": len(values),
            "nodes": len(ids),
            "missing_share": float(np.isnan(values.to_numpy()).mean()),
            "repairs": repairs,
        },
    )


def _on_one_clock(readings: Readings, zone: str | None) -> Readings:
    shown = {
        name: table.set_axis(on_clock(pd.DatetimeIndex(table.index), zone), axis=0)
        for name in ("values", "features")
        if (table := getattr(readings, name)) is not None
    }
    return dataclasses.replace(readings, **shown)


def _readings(settings: PanelSettings, raw: RawFolder, progress: Progress) -> Readings:
    if settings.areas is not None:
        return generate_areas(settings.areas)
    tally = Tally()
    if settings.trips is not None:
        blocks = generated_points(settings.trips, tally, progress)
    else:
        assert settings.reader is not None
        if settings.hexagons is None:
            return READERS.read(settings.reader, settings.options, raw)
        blocks = POINT_READERS.read(settings.reader, settings.options, raw, tally, progress)
    assert settings.hexagons is not None
    axis = settings.interval_minutes, settings.timezone
    return hexagon_table(blocks, settings.hexagons, *axis, tally, settings.dataset)


def _select(values: pd.DataFrame, select: Select, dataset: str, repairs: dict[str, int]) -> pd.DataFrame:
    if select.last_steps is not None:
        if len(values) < select.last_steps:
            raise InputError(f"{dataset}: last_steps: expected at least {select.last_steps} steps, found {len(values)}")
        values = values.iloc[-select.last_steps :]
    if select.nodes is not None:
        unknown = [name for name in select.nodes if name not in values.columns]
        if unknown:
            raise InputError(f"{dataset}: select.nodes: expected nodes of the data, found {unknown[0]!r}")
        values = values[list(select.nodes)]
    if select.min_observed is not None:
        kept = values.columns[values.notna().mean() >= select.min_observed]
        repairs["nodes_left_out"] = len(values.columns) - len(kept)
        values = values[kept]
    return values


def _nodes(readings: Readings, ids: list[str], dataset: str) -> pd.DataFrame:
    index = pd.Index(ids, name="id", dtype="str")
    if readings.positions is None:
        return pd.DataFrame({"lat": np.nan, "lon": np.nan}, index=index)
    unknown = index.difference(readings.positions.index)
    if len(unknown):
        raise InputError(f"{dataset}: column {unknown[0]!r}: expected a node that the list of nodes has, found none")
    return readings.positions.loc[ids].set_axis(index, axis=0).astype({"lat": float, "lon": float})


def _features(readings: Readings, values: pd.DataFrame) -> pd.DataFrame:
    if readings.features is None:
        return pd.DataFrame(index=values.index)
    features = readings.features
    kept = [name for name in features.columns if "/" not in name or name.partition("/")[2] in values.columns]
    return features.loc[~features.index.duplicated(), kept].reindex(values.index)
