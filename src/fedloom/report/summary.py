"""Runs -> tidy numbers: mean and spread over seeds, the published value, and the test against another row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.errors import MASKED
from fedloom.evaluation.forecast.significance import BlockErrors, Unit, compare, holm
from fedloom.report.shown import Shown

ROW = ["dataset", "method", "variant"]
COLUMNS = [
    *ROW,
    *["metric", "horizon", "unit", "selection", "condition"],
    *["ours_mean", "ours_sd", "seeds", "diverged", "published", "note"],
    *["against", "effect", "effect_lo", "effect_hi", "p", "p_holm"],
]
HEADLINE = {"unit": "pooled", "selection": "selected", "horizon": "all", "condition": MASKED}
"""The number that a table prints: pooled, selected weights, the whole horizon, missing readings left out."""

SUMS = {"mae": "abs_error", "rmse": "sq_error"}

Other = Callable[[pd.DataFrame], tuple[str, str] | None]
"""Chooses, from the headline rows of one dataset and metric, the row that all others are tested against."""


def summarise(shown: Shown, units: tuple[str, ...] = ("pooled", "mean")) -> pd.DataFrame:
    """Return one row a number (``COLUMNS``; tests still empty): mean and sample deviation over finished seeds.

    ``seeds`` counts the runs behind a mean, ``diverged`` the runs that have none; ``note`` says why.
    """
    metrics = shown.metrics
    metrics = metrics[metrics["unit"].isin(units)]
    keys = [*ROW, "metric", "horizon", "unit", "selection", "condition"]
    groups = metrics.groupby(keys, sort=False)
    frame = groups["value"].agg(ours_mean="mean", ours_sd="std", seeds="count").reset_index()
    frame["note"] = groups["reason"].agg(lambda reasons: "; ".join(dict.fromkeys(reasons.dropna()))).to_numpy()
    ended = shown.runs.assign(diverged=shown.runs["verdict"] == "diverged").groupby(ROW)["diverged"].sum()
    frame = frame.join(ended, on=ROW)
    published = _published(shown)
    frame["published"] = [published.get(tuple(row), np.nan) for row in frame[[*ROW, "metric"]].to_numpy()]
    frame.loc[~headline(frame), "published"] = np.nan
    place = frame[ROW].apply(tuple, axis=1).map({row: i for i, row in enumerate(rows_of(shown))})
    frame = frame.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)
    return frame.reindex(columns=COLUMNS).astype({"against": "str"})


def headline(frame: pd.DataFrame) -> pd.Series:
    """Return which rows hold the number that a table prints."""
    return (frame[list(HEADLINE)] == pd.Series(HEADLINE)).all(axis=1)


def rows_of(shown: Shown) -> list[tuple[str, str, str]]:
    """Return dataset, method and variant of the rows of a table, in order."""
    return list(dict.fromkeys(shown.runs[ROW].itertuples(index=False, name=None)))


def add_tests(frame: pd.DataFrame, shown: Shown, choose: Other) -> pd.DataFrame:
    """Fill ``against``, effect, interval and p-values: every row of a dataset and metric against the chosen one.

    One dataset, metric and unit is one family for Holm's correction. Tested are the pooled and the per-node mean
    error over the whole horizon, selected weights, missing readings left out.
    """
    frame = frame.copy()
    for dataset in shown.datasets:
        for metric, sums in SUMS.items():
            of = frame[(frame["dataset"] == dataset) & (frame["metric"] == metric)]
            other = choose(of[headline(of) & of["ours_mean"].notna()])
            if other is None:
                continue
            errors = _block_errors(shown, dataset, sums)
            for unit in ("pooled", "mean"):
                tested = of[headline(of.assign(unit="pooled")) & (of["unit"] == unit)]
                _add_family(frame, tested, errors, other, unit)
    return frame


def _add_family(
    frame: pd.DataFrame,
    tested: pd.DataFrame,
    errors: dict[tuple[str, str], BlockErrors],
    other: tuple[str, str],
    unit: Unit,
) -> None:
    rows = {i: (row.method, row.variant) for i, row in zip(tested.index, tested.itertuples(), strict=True)}
    rows = {i: row for i, row in rows.items() if row != other and row in errors}
    if not rows or errors[other].count_CK.shape[1] < 2:
        return
    found = pd.DataFrame([asdict(compare(errors[row], errors[other], unit)) for row in rows.values()], index=list(rows))
    frame.loc[found.index, "against"] = "/".join(other)
    frame.loc[found.index, ["effect", "effect_lo", "effect_hi", "p"]] = found[["effect", "lo", "hi", "p"]].to_numpy()
    frame.loc[found.index, "p_holm"] = holm(found["p"].tolist())


def _block_errors(shown: Shown, dataset: str, sums: str) -> dict[tuple[str, str], BlockErrors]:
    finished = shown.runs[(shown.runs["dataset"] == dataset) & (shown.runs["verdict"] == "finished")]
    errors = {}
    for row, runs in finished.groupby(["method", "variant"], sort=False):
        found = [shown.diagnostics(folder) for folder in runs["folder"]]
        errors[row] = BlockErrors(np.stack([d[sums] for d in found]), found[0]["count"], root=sums == "sq_error")
    return errors


def _published(shown: Shown) -> dict[tuple[str, str, str, str], float]:
    """Values of the paper's table of the same name, measured under no special condition."""
    table = shown.references[(shown.references["table"] == shown.name) & (shown.references["condition"] == "")]
    return {(r.dataset, r.method, r.variant, r.metric): r.value for r in table.itertuples()}
