"""Nodes that are not one sensor each: sums of sensors, sources of covariates, and nodes with a horizon of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from fedloom.data.tables import Table
from fedloom.errors import InputError

Names = Mapping[str, tuple[str, ...]]


def combined(table: Table, groups: Names, where: str) -> Table:
    """Return ``table`` with the nodes ``groups`` in place of all others, each the sum of its members.

    A sum is missing where a member is; its place is the middle of its members. Covariates that all nodes see are kept.
    Raises InputError for a member that is no node or belongs to two groups.
    """
    if not groups:
        return table
    members = [member for group in groups.values() for member in group]
    unknown = [member for member in members if member not in table.values.columns]
    if unknown:
        raise InputError(f"{where}: combine: expected nodes of the data, found {unknown[0]!r}")
    if len(set(members)) < len(members):
        twice = next(member for member in members if members.count(member) > 1)
        raise InputError(f"{where}: combine: expected each node in one group, found {twice!r} twice")
    sums = {name: table.values[list(group)].sum(axis=1, skipna=False) for name, group in groups.items()}
    positions = table.positions
    if positions is not None:
        middle = {name: positions.loc[list(group), ["lat", "lon"]].mean() for name, group in groups.items()}
        positions = pd.DataFrame(middle).T.rename_axis("id")
    features = table.features
    if features is not None:
        features = features[[name for name in features.columns if "/" not in name]]
    values = pd.DataFrame(sums, index=table.values.index)
    return Table(values, positions, features=features, kept_out=table.kept_out)


def with_passive(table: Table, passive: Names, where: str) -> Table:
    """Return ``table`` with nodes that have no forecasting task: what such a node reads is the first of its covariates.

    The others become covariates of that node alone, and none is seen by anybody else any more. A passive node lies
    nowhere, as what it measures holds for all the others. Raises InputError for a covariate that the data do not have.
    """
    if not passive:
        return table
    features = pd.DataFrame(index=table.values.index) if table.features is None else table.features
    values = table.values.copy()
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
    positions = nowhere if table.positions is None else table.positions.reindex(values.columns)
    roles = ["passive" if name in passive else "active" for name in values.columns]
    whole = pd.concat([rest, pd.DataFrame(own, index=features.index)], axis=1)
    return dataclasses.replace(
        table, values=values, positions=positions.assign(role=roles).rename_axis("id"), features=whole
    )


def with_horizons(table: Table, horizons: Mapping[str, int], where: str) -> Table:
    """Return ``table`` whose nodes forecast as many steps as ``horizons`` say; the others have none of their own."""
    if not horizons:
        return table
    unknown = [name for name in horizons if name not in table.values.columns]
    if unknown:
        raise InputError(f"{where}: horizons: expected nodes of the data, found {unknown[0]!r}")
    positions = table.positions
    if positions is None:
        positions = pd.DataFrame({"lat": float("nan"), "lon": float("nan")}, index=table.values.columns)
    steps = pd.Series(horizons).reindex(positions.index).astype("Int64")
    return dataclasses.replace(table, positions=positions.assign(horizon=steps).rename_axis("id"))
