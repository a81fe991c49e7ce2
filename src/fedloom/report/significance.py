"""Is a row of a table better than another? Fills the columns of ``summarise`` that stand empty until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.significance import BlockErrors, Unit, compare, holm
from fedloom.report.names import Run
from fedloom.report.numbers import headline
from fedloom.report.shown import Shown

SUMS = {"mae": "abs_error", "rmse": "sq_error"}

Other = Callable[[pd.DataFrame], Run | None]
"""Chooses, from the headline rows of one dataset and metric, the row that all others are tested against."""


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


def against(run: Run) -> Other:
    """Choose always the same row, where it is there."""

    def choose(rows: pd.DataFrame) -> Run | None:
        return run if run in set(zip(rows["method"], rows["variant"], strict=True)) else None

    return choose


def _add_family(
    frame: pd.DataFrame, tested: pd.DataFrame, errors: dict[Run, BlockErrors], other: Run, unit: Unit
) -> None:
    rows = {i: (row.method, row.variant) for i, row in zip(tested.index, tested.itertuples(), strict=True)}
    rows = {i: row for i, row in rows.items() if row != other and row in errors}
    if not rows or errors[other].count_CK.shape[1] < 2:
        return
    found = pd.DataFrame([asdict(compare(errors[row], errors[other], unit)) for row in rows.values()], index=list(rows))
    frame.loc[found.index, "against"] = "/".join(other)
    frame.loc[found.index, ["effect", "effect_lo", "effect_hi", "p"]] = found[["effect", "lo", "hi", "p"]].to_numpy()
    frame.loc[found.index, "p_holm"] = holm(found["p"].tolist())


def _block_errors(shown: Shown, dataset: str, sums: str) -> dict[Run, BlockErrors]:
    finished = shown.runs[(shown.runs["dataset"] == dataset) & (shown.runs["verdict"] == "finished")]
    errors = {}
    for row, runs in finished.groupby(["method", "variant"], sort=False):
        found = [shown.diagnostics(folder) for folder in runs["folder"]]
        judged = found[0]["count"].sum(1) > 0  # clients that forecast nothing are not drawn
        sums_SCK = np.stack([d[sums] for d in found])[:, judged]
        errors[row] = BlockErrors(sums_SCK, found[0]["count"][judged], root=sums == "sq_error")
    return errors
