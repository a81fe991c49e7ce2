"""Artifacts of the study of Atlas (Every Client Is an Environment)."""

from __future__ import annotations

from functools import partial

import pandas as pd

from fedloom.report.curves import curves
from fedloom.report.forecast.comparison import comparison
from fedloom.report.forecast.regimes import regimes
from fedloom.report.labels import CENTRALISED, FEDERATED, method_group, run_label
from fedloom.report.layout import Table
from fedloom.report.shown import Shown

ABLATED = "Atlas and its published ablations"
CONTROLS = "Controls that the paper does not have"
PUBLISHED = ("base", "A.1", "A.2", "A.3", "A.4", "A.5", "A.6")
BASE = ("atlas", "base")


def table1(shown: Shown) -> Table:
    """Every method on every dataset, ranked as the paper does: federated methods together, centralised ones apart."""
    return comparison(
        shown,
        place=lambda method, variant: (method_group(method), run_label(method, variant)),
        rankings=[FEDERATED, [CENTRALISED]],
        against=_best_federated,
        versus="the best federated method of the column",
    )


def table2(shown: Shown) -> Table:
    """Atlas against its ablations and the controls that its claims call for."""
    return comparison(
        shown,
        place=_place_ablation,
        rankings=[[ABLATED]],
        against=lambda rows: BASE if BASE in _names(rows) else None,
        versus="Atlas",
    )


def _place_ablation(method: str, variant: str) -> tuple[str, str]:
    if method == "atlas":
        return (ABLATED if variant in PUBLISHED else CONTROLS), run_label(method, variant)
    label = "NC, no codebook, local" if method == "local" else run_label(method, variant)
    return CONTROLS, label


def _best_federated(rows: pd.DataFrame) -> tuple[str, str] | None:
    federated = rows[rows["method"].map(method_group).isin(FEDERATED)]
    if federated.empty:
        return None
    best = federated.loc[federated["ours_mean"].idxmin()]
    return best["method"], best["variant"]


def _names(rows: pd.DataFrame) -> set[tuple[str, str]]:
    return set(rows[["method", "variant"]].itertuples(index=False, name=None))


TABLES = {"table1": table1, "table2": table2, "table_regimes": regimes}
FIGURES = {"figure_curves": partial(curves, quantity="validation_score", label="validation MAE")}
