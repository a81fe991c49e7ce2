"""Intervals of causal numbers over clients and seeds, from the draws that runs keep beside their numbers.

Draw r of every run holds the same clients (of an off-policy value: the same owners), so that seeds can be drawn on top:
a draw of a table's number is the mean over drawn seeds of their draw r. With one seed the interval is the run's own.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.evaluation.offpolicy.estimate import LEVEL
from fedloom.evaluation.rows import draws_key
from fedloom.report.cells import DECIMALS, Column
from fedloom.report.layout import Cell
from fedloom.report.numbers import ROW
from fedloom.report.shown import Shown

SEED = 0
KEYED = ["unit", "metric", "horizon", "condition"]
EXPLAINED = (
    "In brackets: 95 % bootstrap interval over clients, drawn whole and alike for all rows, and over seeds where there "
    "are several."
)


def over_seeds(shown: Shown, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``tidy`` with ``lo`` and ``hi`` over clients and seeds where a run was made with several."""
    runs = shown.runs[shown.runs["verdict"] == "finished"]
    frame = frame.copy()
    for run, of in runs.groupby(ROW, sort=False):
        if len(of) < 2:
            continue
        kept = [shown.diagnostics(folder) for folder in of["folder"]]
        own = frame[(frame[ROW] == list(run)).all(axis=1)]
        keys = [draws_key(row) for row in own[KEYED].to_dict("records")]
        there = [all(key in draws for draws in kept) for key in keys]
        known = own[there]
        if len(known):
            drawn_SKR = np.array([[draws[k] for k, has in zip(keys, there, strict=True) if has] for draws in kept])
            lo, hi = np.nanquantile(_mean_of_drawn_seeds(drawn_SKR), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
            frame.loc[known.index, "lo"] = np.minimum(lo, known["ours_mean"])
            frame.loc[known.index, "hi"] = np.maximum(hi, known["ours_mean"])
    return frame


def bracketed(cells: Column, of: pd.DataFrame, decimals: int = DECIMALS) -> Column:
    """Return cells of runs with the interval of the row of ``of`` behind each."""
    by_run = of.set_index(["method", "variant"])[["lo", "hi"]].to_dict("index")
    found = {}
    for run, cell in cells.items():
        known = by_run.get(run)
        wide = known is not None and not np.isnan(known["lo"])
        tail = f" [{known['lo']:.{decimals}f}, {known['hi']:.{decimals}f}]" if known is not None and wide else ""
        found[run] = Cell(cell.text + tail, cell.mark)
    return found


def _mean_of_drawn_seeds(drawn_SKR: np.ndarray) -> np.ndarray:
    """Means over as many seeds as there are, drawn with replacement for each draw and alike for all numbers, [K, R]."""
    seeds, _, draws = drawn_SKR.shape
    picked_SR = np.random.default_rng([SEED, seeds]).integers(0, seeds, (seeds, draws))
    found: np.ndarray = drawn_SKR[picked_SR, :, np.arange(draws)].mean(axis=0, dtype=np.float64).T
    return found
