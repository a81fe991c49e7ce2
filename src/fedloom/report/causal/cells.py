"""What the artifacts of causal studies share: tidy numbers by condition, the paper's beside them, and cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedloom.report.forecast.comparison import number, rank
from fedloom.report.labels import CAUSAL, method_group
from fedloom.report.layout import EMPTY, Cell
from fedloom.report.shown import Shown
from fedloom.report.summary import summarise

DECIMALS = 3
POLICY_LABELS = {"never": "Never", "always": "Always", "early_on": "Early-on", "late_on": "Late-on"}
ESTIMATOR_LABELS = {
    "dm": "DM",
    "ips": "IPS",
    "snips": "SNIPS",
    "dr": "DR",
    "sndr": "SNDR",
    "wis": "WIS",
    "pdis": "per-decision IPS",
    "pdwis": "per-decision WIS",
    "pddr": "per-decision DR",
    "on_policy": "on-policy mean",
}
Method = tuple[str, str]
Column = dict[Method | str, Cell]
"""Cells by method and variant, or by the name of a row that no method makes."""


def tidy(shown: Shown) -> pd.DataFrame:
    """Return mean and deviation over seeds of every number of the selected weights, pooled or a mean over clients.

    The parts of a condition are columns of their own (``scope``, ``policy``, ...), empty where it does not have one;
    ``lo`` and ``hi`` are means over seeds.
    """
    frame = summarise(shown)
    metrics = shown.metrics
    keys = ["dataset", "method", "variant", "metric", "horizon", "unit", "selection", "condition"]
    bounds = metrics[metrics["unit"].isin(["pooled", "mean"])].groupby(keys)[["lo", "hi"]].mean()
    n = metrics.groupby(keys)["n"].max()
    frame = frame.join(bounds, on=keys).join(n, on=keys)
    frame = frame[frame["selection"] == "selected"].reset_index(drop=True)
    return with_parts(frame)


def with_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` (unique index) with a column ``of_{part}`` for each part of a condition, empty where a row has
    none."""
    parts = [dict(p.split("=", 1) for p in c.split(",")) if c else {} for c in frame["condition"]]
    return frame.join(pd.DataFrame(parts, index=frame.index).fillna("").add_prefix("of_"))


def pick(frame: pd.DataFrame, **series: Any) -> pd.DataFrame:
    """Return the rows whose columns, or parts of the condition, are as given; a part that no row has is empty."""
    chosen = pd.Series(True, index=frame.index)
    for name, value in series.items():
        column = name if name in frame.columns else f"of_{name}"
        found = frame[column] if column in frame.columns else pd.Series("", index=frame.index)
        chosen &= found == value
    return frame[chosen]


def practical(of: pd.DataFrame) -> str:
    """Return which propensities of a dataset one would use: logged ones, but in a world whose truth is known.

    There they are part of that truth, and estimates show what could be found without it.
    """
    known, generated = set(of["of_propensity"]), len(pick(of, prediction="truth")) > 0
    return "estimated" if "estimated" in known and (generated or "logged" not in known) else "logged"


def marked(
    frame: pd.DataFrame,
    groups: dict[Method, str],
    rankings: list[set[str]],
    decimals: int = DECIMALS,
    largest: bool = False,
) -> Column:
    """Return the cells of ``frame`` with best and second marked; the smallest is best, or ``largest``."""
    by_name = frame.set_index(["method", "variant"])
    found: dict[Method, pd.Series] = {name: by_name.loc[name] for name in by_name.index}
    marks = rank(found, groups, rankings, decimals, largest)
    return {name: Cell(text(row, decimals), marks.get(name, "")) for name, row in found.items()}


def text(row: pd.Series, decimals: int = DECIMALS) -> str:
    """Return mean ± deviation in print; where there is none, ``diverged`` or the reason."""
    if np.isnan(row["ours_mean"]) and not row["diverged"] and row["note"]:
        return str(row["note"]).replace("_", " ")
    return number(row, decimals)


def published(shown: Shown, dataset: str, metrics: tuple[str, ...], table: str | None = None) -> Column:
    """Return the paper's cells of a dataset, under the first of ``metrics`` that it prints."""
    of = shown.references
    of = of[(of["table"] == (table or shown.name)) & (of["dataset"] == dataset)]
    for metric in metrics:
        rows = of[of["metric"] == metric]
        if len(rows):
            return {(r.method, r.variant): Cell(f"{r.value:.{DECIMALS}f}") for r in rows.itertuples()}
    return {}


def methods(frame: pd.DataFrame) -> list[Method]:
    """Return the methods' variants in ``frame``, in order, those that are made for causal questions first."""
    found = dict.fromkeys(frame[["method", "variant"]].itertuples(index=False, name=None))
    return sorted(found, key=lambda name: method_group(name[0]) != CAUSAL)


def first(frame: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of a number that is the same for all methods; a dash where there is none."""
    return Cell(text(frame.iloc[0], decimals)) if len(frame) else Cell(EMPTY)
