"""Nodes that are not one sensor each: sums of sensors, sources of covariates, and nodes with a horizon of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from fedloom.data.panels.readings import Readings
from fedloom.errors import InputError

Names = Mapping[str, tuple[str, ...]]


def combined(readings: Readings, groups: Names, where: str) -> Readings:
    """Return ``readings`` with the nodes ``groups`` in place of all others, each the sum of its members.

    A sum is missing where a member is; its place is the middle of its members. Covariates that all nodes see are kept.
    Raises InputError for a member that is no node or belongs to two groups.
    """
    if not groups:
        return readings
    members = [member for group in groups.values() for member in group]
    unknown = [member for member in members if member not in readings.values.columns]
    if unknown:
        raise InputError(f"{where}: combine: expected nodes of the data, found {unknown[0]!r}")
    if len(set(members)) < len(members):
        twice = next(member for member in members if members.count(member) > 1)
        raise InputError(f"{where}: combine: expected each node in one group, found {twice!r} twice")
    sums = {name: readings.values[list(group)].sum(axis=1, skipna=False) for name, group in groups.items()}
    positions = readings.positions
    if positions is not None:
        middle = {name: positions.loc[list(group), ["lat", "lon"]].mean() for name, group in groups.items()}
        positions = pd.DataFrame(middle).T.rename_axis("id")
    features = readings.features
    if features is not None:
        features = features[[name for name in features.columns if "/" not in name]]
    values = pd.DataFrame(sums, index=readings.values.index)
    return Readings(values, positions, features=features, kept_out=readings.kept_out)


def with_passive(readings: Readings, passive: Names, where: str) -> Readings:
    """Return ``readings`` with nodes that have no forecasting task: what one reads is the first of its covariates.

    The others become covariates of that node alone, and none is seen by anybody else any more. A passive node lies
    nowhere, as what it measures holds for all the others. Raises InputError for a covariate that the data do not have.
    """
    if not passive:
        return readings
    features = pd.DataFrame(index=readings.values.index) if readings.features is None else readings.features
    values = readings.values.copy()
    own: dict[str, pd.Series] = {}
    for node, names in passive.items():
        unknown = [name for name in names if name not in features.columns]
        if unknown:
            known = ", ".join(map(str, features.columns)) or "none"
            raise InputError(
                f"{where}: passive.{node}: expected covariates of the data ({known}), found {unknown[0]!r}"
            )
        values[node] = features[names[0]].reindex(values.index)
        own |= {f"{name}/{node}": features[name] for name in names[1:]}
    taken = {name for names in passive.values() for name in names}
    rest = features[[name for name in features.columns if name not in taken]]
    nowhere = pd.DataFrame({"lat": float("nan"), "lon": float("nan")}, index=values.columns)
    positions = nowhere if readings.positions is None else readings.positions.reindex(values.columns)
    roles = ["passive" if name in passive else "active" for name in values.columns]
    whole = pd.concat([rest, pd.DataFrame(own, index=features.index)], axis=1)
    return dataclasses.replace(
        readings, values=values, positions=positions.assign(role=roles).rename_axis("id"), features=whole
    )


def with_horizons(readings: Readings, horizons: Mapping[str, int], where: str) -> Readings:
    """Return ``readings`` whose nodes forecast as many steps as ``horizons`` say; the others have none of their own."""
    if not horizons:
        return readings
    unknown = [name for name in horizons if name not in readings.values.columns]
    if unknown:
        raise InputError(f"{where}: horizons: expected nodes of the data, found {unknown[0]!r}")
    positions = readings.positions
    if positions is None:
        positions = pd.DataFrame({"lat": float("nan"), "lon": float("nan")}, index=readings.values.columns)
    steps = pd.Series(horizons).reindex(positions.index).astype("Int64")
    return dataclasses.replace(readings, positions=positions.assign(horizon=steps).rename_axis("id"))
