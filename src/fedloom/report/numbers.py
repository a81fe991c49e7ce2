"""Runs -> tidy numbers: mean and spread over seeds, the published value beside them, by the parts of a condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.rows import parts_of
from fedloom.report.shown import Shown

ROW = ["dataset", "method", "variant"]
NUMBER = ["metric", "horizon", "unit", "selection", "condition"]
COLUMNS = [
    *ROW,
    *NUMBER,
    *["ours_mean", "ours_sd", "seeds", "diverged", "published", "note"],
    *["against", "effect", "effect_lo", "effect_hi", "p", "p_holm"],
]
UNITS = ("pooled", "mean")
"""Units of numbers that are no single client's."""

HEADLINE = {"unit": "pooled", "selection": "selected", "horizon": "all", "condition": MASKED}
"""The number that a table of forecasts prints: pooled, selected weights, the whole horizon, missing readings left
out."""


def summarise(shown: Shown, units: tuple[str, ...] = UNITS) -> pd.DataFrame:
    """Return one row a number (``COLUMNS``; tests still empty): mean and sample deviation over finished seeds.

    ``seeds`` counts the runs behind a mean, ``diverged`` the runs that have none; ``note`` says why.
    """
    metrics = shown.metrics
    groups = metrics[metrics["unit"].isin(units)].groupby([*ROW, *NUMBER], sort=False)
    frame = groups["value"].agg(ours_mean="mean", ours_sd="std", seeds="count").reset_index()
    frame["note"] = groups["reason"].agg(lambda reasons: "; ".join(dict.fromkeys(reasons.dropna()))).to_numpy()
    ended = shown.runs.assign(diverged=shown.runs["verdict"] == "diverged").groupby(ROW)["diverged"].sum()
    frame = frame.join(ended, on=ROW)
    printed = published(shown, condition="").set_index([*ROW, "metric"])["value"].to_dict()
    frame["published"] = [printed.get(tuple(row), np.nan) for row in frame[[*ROW, "metric"]].to_numpy()]
    frame.loc[~headline(frame), "published"] = np.nan
    rows = dict.fromkeys(shown.runs[ROW].itertuples(index=False, name=None))
    place = frame[ROW].apply(tuple, axis=1).map({row: i for i, row in enumerate(rows)})
    frame = frame.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)
    return frame.reindex(columns=COLUMNS).astype({"against": "str"})


def tidy(shown: Shown) -> pd.DataFrame:
    """Return ``summarise`` of the selected weights, with ``lo``, ``hi`` (means over seeds) and ``n`` (the largest).

    The parts of a condition are columns of their own (see ``with_parts``).
    """
    metrics = shown.metrics
    keys = [*ROW, *NUMBER]
    bounds = metrics[metrics["unit"].isin(UNITS)].groupby(keys)[["lo", "hi"]].mean()
    counts = metrics.groupby(keys)["n"].max()
    frame = summarise(shown).join(bounds, on=keys).join(counts, on=keys)
    return with_parts(frame[frame["selection"] == "selected"].reset_index(drop=True))


def headline(frame: pd.DataFrame) -> pd.Series:
    """Return which rows hold the number that a table of forecasts prints."""
    return (frame[list(HEADLINE)] == pd.Series(HEADLINE)).all(axis=1)


def with_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` (unique index) with a column ``of_{part}`` for each part of a condition, empty where a row has
    none."""
    parts = list(map(parts_of, frame["condition"]))
    return frame.join(pd.DataFrame(parts, index=frame.index).fillna("").add_prefix("of_"))


def fitting(frame: pd.DataFrame, where: Mapping[str, str], free: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the conditions in ``frame``, with their parts, that are as in ``where``, with ``free`` keys, no others."""
    parts = {each: parts_of(each) for each in frame["condition"].unique()}
    keys = where.keys() | set(free)
    return {each: of for each, of in parts.items() if of.keys() == keys and where.items() <= of.items()}


def pick(frame: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """Return the rows whose columns, or parts of the condition, are as wanted; a part that no row has is empty."""
    chosen = pd.Series(True, index=frame.index)
    for name, value in wanted.items():
        column = name if name in frame.columns else f"of_{name}"
        found = frame[column] if column in frame.columns else pd.Series("", index=frame.index)
        chosen &= found == value
    return frame[chosen]


def behind(frame: pd.DataFrame, printed: pd.DataFrame, *computed: Mapping[str, Any]) -> pd.DataFrame:
    """Return ``frame`` with what else a table prints: ``printed`` values of the paper, and numbers ``computed`` here.

    A published value stands in the column of that name, under the paper's own dataset and condition.
    """
    of_paper = printed.drop(columns="table", errors="ignore").rename(columns={"value": "published"})
    parts = [part for part in (frame, of_paper, pd.DataFrame(list(computed))) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else frame


def published(shown: Shown, **wanted: Any) -> pd.DataFrame:
    """Return the published values of the paper's table of the same name, or of another ``table``, as ``pick`` does."""
    frame = shown.references
    table = wanted.pop("table", shown.name)
    return pick(with_parts(frame[frame["table"] == table].reset_index(drop=True)), **wanted)
