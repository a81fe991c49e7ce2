"""Tables 3 and 4: forecasts of held-out sets, after one epoch on them and without learning from them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.report.causal.cells import marked, pick
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.series.cells import (
    PUBLISHED_MODELS,
    REFERENCES,
    Method,
    cell,
    label,
    names,
    numbers,
    of_methods,
    protocol_facts,
    published,
    published_cell,
    target_label,
    transcribed,
)
from fedloom.report.shown import Shown

METRICS = {"mse": "MSE", "mae": "MAE"}
NAIVE = ("seasonal_naive", "window_mean")
FOREMOST: Method = ("fedal", "base")
BEATS = {(True, True): "beats both", (True, False): "beats naive", (False, True): "beats mean", (False, False): "loses"}
"""Whether an error is below that of seasonal naive, and of the past mean -> in words."""


def zero_shot(shown: Shown) -> Table:
    """Zero-shot forecasts by set and horizon beside seasonal-naive and the past mean, with the published models."""
    frame = numbers(shown, "forecast")
    methods = names(shown)
    header = [(label(*n), title) for n in methods for title in METRICS.values()]
    header += [(REFERENCES[name], title) for name in NAIVE for title in METRICS.values()]
    header += [(label(*FOREMOST), "against the two"), ("paper", "MSE"), ("paper", "MAE")]
    rows = []
    for dataset, target, horizons in _sets(shown, frame):
        of = frame[(frame["dataset"] == dataset) & (frame["of_target"] == target)]
        for horizon in horizons:
            at = pick(of, horizon=horizon)
            cells = _ranked(at, methods, "forecast")
            cells += [c for name in NAIVE for c in _cells(_same(pick(at, prediction=name)))]
            cells.append(Cell(_verdict(at)))
            paper = published(shown, "table4", dataset=target, horizon=horizon)
            cells += [published_cell(paper[paper["metric"] == metric]) for metric in METRICS]
            rows.append((_group(shown, dataset, target), "mean" if horizon == "all" else horizon, cells))
    rows += _published_means(shown, len(header))
    notes = (
        "Errors on data scaled by the training part; look-back: the model's window; a suffix of hidden tokens is "
        "filled in, beyond half a window in blocks that are fed back. At most 512 windows of a set and horizon, evenly "
        "over the test part, first and last among them. Mean: over horizons. Best of ours in bold, second underlined. "
        "Seasonal naive repeats the last season, where there is none the last value; window mean: the mean of the "
        f"look-back. Paper: FeDaL's values by set; its means, and those of FFTS and of centralised models, in the last "
        f"rows are over ETT and Weather. {_starred(rows)}{_beaten(frame)} {protocol_facts(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def full_shot(shown: Shown) -> Table:
    """Forecasts after one epoch on each set, by horizon, beside the zero-shot ones of the same runs."""
    frame = numbers(shown, "full_shot", "forecast")
    methods = names(shown)
    header = [(label(*n), title) for n in methods for title in METRICS.values()]
    header += [(f"{label(*n)}, zero-shot", "MSE") for n in methods]
    header += [("Seasonal naive", "MSE"), ("FeDaL, paper", "MSE"), ("FeDaL, paper", "MAE")]
    rows = []
    for dataset, target, horizons in _sets(shown, frame):
        of = frame[(frame["dataset"] == dataset) & (frame["of_target"] == target)]
        for horizon in horizons:
            at = pick(of, horizon=horizon)
            cells = _ranked(at, methods, "full_shot")
            for i, n in enumerate(methods):
                if of_methods(at, method=n[0], variant=n[1], task="full_shot").empty:
                    cells[len(METRICS) * i] = _null(frame, dataset, n)
                cells.append(cell(of_methods(at, method=n[0], variant=n[1], task="forecast", metric="mse")))
            cells.append(cell(_same(pick(at, prediction="seasonal_naive", metric="mse"))))
            paper = published(shown, "table3", dataset=target) if horizon == "all" else shown.references.iloc[:0]
            cells += [published_cell(paper[paper["metric"] == metric]) for metric in METRICS]
            rows.append((_group(shown, dataset, target), "mean" if horizon == "all" else horizon, cells))
    notes = (
        "One epoch over at most as many windows of the training part as the scale says, spread evenly; same windows, "
        "order and new head (flattened tokens to the horizon, from 0) for every method: only the start weights differ. "
        "The better of a linear probe and of training all weights, by validation. Best in bold, second underlined. "
        f"Zero-shot and seasonal naive: as in Table 4. {_starred(rows)}{_tested(frame)} {protocol_facts(shown)} "
        f"{shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def _tested(frame: pd.DataFrame) -> str:
    """Say how many test points stand behind what was learned in one epoch."""
    n = frame.loc[(frame["of_task"] == "full_shot") & frame["ours_mean"].notna(), "n"]
    return f"After an epoch: up to {int(n.max()):,} test points a set and horizon." if len(n) else ""


def _starred(rows: list[tuple[str, str, list[Cell]]]) -> str:
    said = transcribed([cell for _, _, cells in rows for cell in cells])
    return f"{said} " if said else ""


def _sets(shown: Shown, frame: pd.DataFrame) -> list[tuple[str, str, list[str]]]:
    """Federation, held-out set and its horizons (their mean last), in order."""
    found = []
    for dataset in shown.datasets:
        of = frame[(frame["dataset"] == dataset) & (frame["of_target"] != "")]
        for target in dict.fromkeys(of["of_target"]):
            horizons = sorted(set(of.loc[of["of_target"] == target, "horizon"]) - {"all"}, key=int)
            found.append((dataset, target, [*horizons, "all"]))
    return found


def _group(shown: Shown, dataset: str, target: str) -> str:
    alone = len(shown.datasets) == 1
    return target_label(target) if alone else f"{target_label(target)}, from {shown.label(dataset)}"


def _cells(of: pd.DataFrame) -> list[Cell]:
    return [cell(of[of["metric"] == metric]) for metric in METRICS]


def _ranked(at: pd.DataFrame, methods: list[Method], task: str) -> list[Cell]:
    """The cells of every method and metric, the best and the second of a metric marked."""
    own = of_methods(at, task=task)
    found = {m: marked(own[own["metric"] == m], dict.fromkeys(methods, ""), [{""}]) for m in METRICS}
    return [found[metric].get(name, Cell()) for name in methods for metric in METRICS]


def _same(of: pd.DataFrame) -> pd.DataFrame:
    """Reference rows are the same for all runs: one of each metric, without a deviation."""
    return of.drop_duplicates(["metric"]).assign(ours_sd=np.nan)


def _null(frame: pd.DataFrame, dataset: str, name: Method) -> Cell:
    of = of_methods(frame, dataset=dataset, method=name[0], variant=name[1], task="full_shot")
    notes = of.loc[of["ours_mean"].isna(), "note"]
    return Cell(str(notes.iloc[0]) if len(notes) else EMPTY)


def _verdict(at: pd.DataFrame) -> str:
    """Whether FeDaL's zero-shot error is below seasonal-naive's and the past mean's."""
    own = of_methods(at, metric="mse", method=FOREMOST[0], variant=FOREMOST[1], task="forecast")
    naive = [pick(at, metric="mse", prediction=name)["ours_mean"] for name in NAIVE]
    if own.empty or np.isnan(own["ours_mean"].iloc[0]) or any(not len(n) or np.isnan(n.iloc[0]) for n in naive):
        return EMPTY
    value = own["ours_mean"].iloc[0]
    return BEATS[bool(value < naive[0].iloc[0]), bool(value < naive[1].iloc[0])]


def _beaten(frame: pd.DataFrame) -> str:
    """Say on which sets FeDaL without learning does not beat the mean of the past."""
    behind, judged = [], 0
    for (_, target), of in frame[frame["horizon"] == "all"].groupby(["dataset", "of_target"], sort=False):
        verdict = _verdict(of)
        judged += verdict != EMPTY
        if verdict in ("loses", "beats naive"):
            behind.append(target_label(str(target)))
    if not judged:
        return ""
    where = "no set" if len(behind) == judged else f"every set but {', '.join(behind)}" if behind else "every set"
    see = "; see the learning curve" if behind else ""
    return f"FeDaL beats the mean of the look-back on {where} (mean over horizons{see})."


def _published_means(shown: Shown, columns: int) -> list[tuple[str, str, list[Cell]]]:
    values = published(shown, "table4", dataset="mean")
    rows = []
    for (method, variant), of in values.groupby(["method", "variant"], sort=False):
        cells = [published_cell(of[of["metric"] == metric]) for metric in METRICS]
        kind = "Published, mean of ETT and Weather"
        name = f"{PUBLISHED_MODELS[method]} (centralised)" if method in PUBLISHED_MODELS else label(method, variant)
        rows.append((kind, name, [Cell(EMPTY)] * (columns - len(cells)) + cells))
    return rows
