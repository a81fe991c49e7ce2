"""Numbers of models of series: the headline's condition, and rows by task."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedloom.evaluation.rows import condition
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown

MASKED = {"task": "reconstruction", "rate": "mean", "space": "z"}
"""Condition of the headline: masked reconstruction of the clients' test windows, mean over rates."""

HEADLINE = MASKED | {"target": ""}


def numbers(shown: Shown, *tasks: str) -> pd.DataFrame:
    """Return ``tidy`` numbers of the runs in ``tasks``: means over clients, or over windows of a held-out set."""
    frame = tidy(shown)
    return frame[(frame["unit"] == "mean") & frame["of_task"].isin(tasks)].reset_index(drop=True)


def masked_errors(shown: Shown) -> pd.DataFrame:
    """Return the metrics that are the headline's MSE by the selected weights, of every client and their mean."""
    return pick(shown.metrics, condition=condition(**MASKED), metric="mse", selection="selected")


def of_methods(frame: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """Return the rows of ``pick`` that are methods' own, without reference rows."""
    return pick(frame, prediction="", **wanted)
