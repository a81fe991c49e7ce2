"""Forecasts of held-out sets: without learning from them, and after one epoch on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedloom.report.captions import steps, told
from fedloom.report.cells import alike, explained, marked, published_cell, transcribed
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.names import Run
from fedloom.report.numbers import behind, pick, published
from fedloom.report.series.numbers import numbers, of_methods
from fedloom.report.shown import Shown, of_run

METRICS = ("mse", "mae")
NAIVE = ("seasonal_naive", "window_mean")
UNSEEN = "zero-shot "
INDEX = ("Set", "Horizon")
BEATS = {(True, True): "beats both", (True, False): "beats naive", (False, True): "beats mean", (False, False): "loses"}
"""Whether an error is below that of seasonal naive, and of the past mean -> in words."""

Row = tuple[str, str, list[Cell]]


@dataclass(frozen=True)
class ZeroShotOptions:
    """``means``: what the means over sets that the paper prints are called in the notes, which says over which."""

    means: str = "Published means over sets"


def zero_shot(shown: Shown, options: ZeroShotOptions) -> Table:
    """Zero-shot forecasts by set and horizon beside seasonal-naive and the past mean, with the published models."""
    frame = numbers(shown, "forecast")
    runs, word, ours = shown.compared, shown.names.word, shown.names.run(shown.ours)
    header = [(shown.names.run(run), word(metric)) for run in runs for metric in METRICS]
    header += [(word(name), word(metric)) for name in NAIVE for metric in METRICS]
    header += [(ours, "against the two"), *(("paper", word(metric)) for metric in METRICS)]
    rows: list[Row] = []
    for dataset, target, horizon in _places(shown, frame):
        at = pick(frame, dataset=dataset, target=target, horizon=horizon)
        beside = {name: alike(pick(at, prediction=name)) for name in NAIVE}
        cells = _ranked(shown, at, [*runs, *NAIVE], "forecast", beside)
        cells.append(Cell(_verdict(shown, at)))
        paper = published(shown, dataset=target, horizon=horizon)
        cells += [published_cell(pick(paper, metric=metric)) for metric in METRICS]
        rows.append((*_named(shown, dataset, target, horizon), cells))
    notes = told(
        shown,
        "Errors on data scaled by the training part; look-back: the model's window; a suffix of hidden tokens is "
        "filled in, beyond half a window in blocks that are fed back. At most 512 windows of a set and horizon, evenly "
        "over the test part, first and last among them. Mean: over horizons. Seasonal naive repeats the last season, "
        "where there is none the last value; window mean: the mean of the look-back. Federated methods are ranked.",
        _explained(rows),
        _starred(rows),
        _beaten(shown, frame),
        _published_means(shown, options.means),
        steps(shown),
    )
    return Table(header, rows, shown.caption, notes, behind(frame, published(shown)), INDEX)


def full_shot(shown: Shown) -> Table:
    """Forecasts after one epoch on each set, by horizon, beside the zero-shot ones of the same runs."""
    frame = numbers(shown, "full_shot", "forecast")
    runs, word, ours = shown.compared, shown.names.word, shown.names.run(shown.ours)
    header = [(shown.names.run(run), word(metric)) for run in runs for metric in METRICS]
    header += [(f"{shown.names.run(run)}, zero-shot", word("mse")) for run in runs]
    header += [(word("seasonal_naive"), word("mse")), *((f"{ours}, paper", word(metric)) for metric in METRICS)]
    rows: list[Row] = []
    for dataset, target, horizon in _places(shown, frame):
        at = pick(frame, dataset=dataset, target=target, horizon=horizon)
        beside = {f"{UNSEEN}{run}": of_methods(of_run(at, run), task="forecast", metric="mse") for run in runs}
        beside[NAIVE[0]] = pick(alike(pick(at, prediction=NAIVE[0])), metric="mse")
        cells = _ranked(shown, at, runs, "full_shot", beside)
        for i, run in enumerate(runs):
            if of_methods(of_run(at, run), task="full_shot").empty:
                cells[len(METRICS) * i] = _null(frame, dataset, run)
        cells += _ranked(shown, at, list(beside), "full_shot", beside)[:: len(METRICS)]
        paper = published(shown, dataset=target)
        paper = paper if horizon == "all" else paper.iloc[:0]
        cells += [published_cell(pick(paper, metric=metric)) for metric in METRICS]
        rows.append((*_named(shown, dataset, target, horizon), cells))
    notes = told(
        shown,
        "One epoch over at most as many windows of the training part as the scale says, spread evenly; same windows, "
        "order and new head (flattened tokens to the horizon, from 0) for every method: only the start weights differ. "
        "The better of a linear probe and of training all weights, by validation.",
        _explained(rows),
        _starred(rows),
        _tested(frame),
        steps(shown),
    )
    return Table(header, rows, shown.caption, notes, behind(frame, published(shown)), INDEX)


def _tested(frame: pd.DataFrame) -> str:
    """How many test points stand behind what was learned in one epoch."""
    n = frame.loc[(frame["of_task"] == "full_shot") & frame["ours_mean"].notna(), "n"]
    return f"After an epoch: up to {int(n.max()):,} test points a set and horizon." if len(n) else ""


def _starred(rows: list[Row]) -> str:
    return transcribed(cell for _, _, cells in rows for cell in cells)


def _places(shown: Shown, frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Federation, held-out set and horizon of every row, in order; the mean over horizons is the last of a set."""
    found = []
    for dataset in shown.datasets:
        of = frame[(frame["dataset"] == dataset) & (frame["of_target"] != "")]
        for target in dict.fromkeys(of["of_target"]):
            horizons = sorted(set(of.loc[of["of_target"] == target, "horizon"]) - {"all"}, key=int)
            found += [(dataset, target, horizon) for horizon in (*horizons, "all")]
    return found


def _named(shown: Shown, dataset: str, target: str, horizon: str) -> tuple[str, str]:
    label = shown.names.word(target)
    group = label if len(shown.datasets) == 1 else f"{label}, from {shown.label(dataset)}"
    return group, "mean" if horizon == "all" else horizon


def _ranked(
    shown: Shown, at: pd.DataFrame, keys: Sequence[Any], task: str, beside: Mapping[str, pd.DataFrame]
) -> list[Cell]:
    """The cells of every method, or row ``beside`` them, and metric; the best and the second of a metric marked."""
    found = {}
    ranking = shown.names.ranking(shown.compared)
    for metric in METRICS:
        rows = {name: pick(of, metric=metric) for name, of in beside.items()}
        found[metric] = marked(of_methods(at, task=task, metric=metric), *ranking, beside=rows)
    return [found[metric].get(key, Cell()) for key in keys for metric in METRICS]


def _explained(rows: list[Row]) -> str:
    return explained([cell for _, _, cells in rows for cell in cells])


def _null(frame: pd.DataFrame, dataset: str, run: Run) -> Cell:
    """Why a run has no number after an epoch."""
    of = of_methods(of_run(frame, run), dataset=dataset, task="full_shot")
    notes = of.loc[of["ours_mean"].isna(), "note"]
    return Cell(str(notes.iloc[0]) if len(notes) else EMPTY)


def _verdict(shown: Shown, at: pd.DataFrame) -> str:
    """Whether the foremost method's zero-shot error is below seasonal-naive's and the past mean's."""
    own = of_methods(of_run(at, shown.ours), metric="mse", task="forecast")["ours_mean"]
    naive = [pick(at, metric="mse", prediction=name)["ours_mean"] for name in NAIVE]
    if any(not len(values) or np.isnan(values.iloc[0]) for values in (own, *naive)):
        return EMPTY
    return BEATS[bool(own.iloc[0] < naive[0].iloc[0]), bool(own.iloc[0] < naive[1].iloc[0])]


def _beaten(shown: Shown, frame: pd.DataFrame) -> str:
    """On which sets the foremost method does not beat the mean of the past without learning."""
    behind, judged = [], 0
    for (_, target), of in frame[frame["horizon"] == "all"].groupby(["dataset", "of_target"], sort=False):
        verdict = _verdict(shown, of)
        judged += verdict != EMPTY
        if verdict in ("loses", "beats naive"):
            behind.append(shown.names.word(str(target)))
    if not judged:
        return ""
    where = "no set" if len(behind) == judged else f"every set but {', '.join(behind)}" if behind else "every set"
    see = "; see the learning curve" if behind else ""
    ours = shown.names.run(shown.ours)
    return f"{ours} beats the mean of the look-back on {where} (mean over horizons{see})."


def _published_means(shown: Shown, means: str) -> str:
    """Every method's means over sets that the paper prints."""
    said = []
    for run, of in published(shown, dataset="mean").groupby(["method", "variant"], sort=False):
        values = [published_cell(pick(of, metric=metric)).text for metric in METRICS]
        said.append(f"{shown.names.run(run)} {', '.join(values)}")
    titles = ", ".join(map(shown.names.word, METRICS))
    return f"{means} ({titles}): {'; '.join(said)}." if said else ""
