"""Whether runs had converged when they ended: what the last quarter of their rounds still brought."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.report.cells import Column
from fedloom.report.layout import Cell
from fedloom.report.numbers import COLUMNS, ROW
from fedloom.report.shown import Shown, of_federation

SCORE = "validation_score"
LAST = 0.25  # of the rounds
ENOUGH = 0.01  # of the error: a run that still gained as much had not converged
METRIC = "late_gain"
EXPLAINED = (
    f"Converged: the best validation error fell by under {100 * ENOUGH:.0f} % in the last quarter of the rounds; of "
    "several seeds, how many did so."
)


def late_gain(scores: pd.Series) -> float:
    """Share of the best error that fell away in the last quarter of the rounds.

    ``scores`` has a validation error a round, its index counts rounds from 0. NaN where either side of the quarter has
    none.
    """
    late = scores.index >= (1 - LAST) * (scores.index.max() + 1)
    if late.all() or not late.any():
        return float("nan")
    before = scores[~late].min()
    return float(max(0.0, 1 - scores[late].min() / before))


def late_gains(shown: Shown) -> pd.DataFrame:
    """Return the late gain of every run that finished and was validated: dataset, method, variant, seed, gain."""
    rows = []
    for run in shown.runs[shown.runs["verdict"] == "finished"].itertuples():
        scores = of_federation(shown.rounds(run.folder), SCORE)
        gain = late_gain(scores) if len(scores) else float("nan")
        if not np.isnan(gain):
            rows.append({name: getattr(run, name) for name in (*ROW, "seed")} | {"gain": gain})
    return pd.DataFrame(rows, columns=[*ROW, "seed", "gain"])


def converged(gains: pd.DataFrame) -> Column:
    """Return the cells of one dataset's gains by run: yes or no, or how many of the seeds."""
    cells: dict[tuple[str, str], Cell] = {}
    for run, of in gains.groupby(["method", "variant"]):
        count, seeds = int((of["gain"] < ENOUGH).sum()), len(of)
        answer = {0: "no", seeds: "yes"}.get(count, f"{count} of {seeds}")
        cells[run] = Cell(answer)
    return cells


def as_numbers(gains: pd.DataFrame) -> pd.DataFrame:
    """Return the gains as rows of a tidy table: mean and deviation over seeds, metric ``late_gain``."""
    found = gains.groupby(ROW, sort=False)["gain"].agg(ours_mean="mean", ours_sd="std", seeds="count").reset_index()
    return found.assign(metric=METRIC, unit="pooled", horizon="all", diverged=0).reindex(columns=COLUMNS)
