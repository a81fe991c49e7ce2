"""How useful generated sequences are, and how well observed outcomes are foretold, beside constants and real data."""

from __future__ import annotations

import pandas as pd

from fedloom.report.captions import told
from fedloom.report.causal.intervals import EXPLAINED, bracketed, over_seeds
from fedloom.report.causal.marks import collapsed, rules
from fedloom.report.cells import Column, Columns, explained, marked, published_column
from fedloom.report.layout import Table
from fedloom.report.names import Run
from fedloom.report.numbers import pick, published, tidy
from fedloom.report.shown import Shown, runs_in

SYNTHETIC = ("synthetic", "partly_synthetic")
PARTLY = " (outcomes alone generated)"
COLUMNS = (
    ("TSTR AUC", "tstr_auc", "pooled"),
    ("TSTR RMSE", "tstr_rmse", "pooled"),
    ("Factual AUC", "auc", "pooled"),
    ("Factual AUC, mean of clients", "auc", "mean"),
    ("Factual RMSE", "rmse", "pooled"),
)
"""Header, metric and unit."""

REFERENCES = {
    "real": {"source": "real", "prediction": ""},
    "shuffled": {"source": "shuffled", "prediction": ""},
    "half": {"source": "", "prediction": "half"},
    "base_rate": {"source": "", "prediction": "base_rate"},
}


def utility(shown: Shown) -> Table:
    """Train on synthetic, test on real: a block of rows a dataset, with the paper's numbers beside ours."""
    frame = over_seeds(shown, tidy(shown))
    printed = published(shown)
    printed = printed[printed["dataset"].isin(shown.datasets) & printed["metric"].str.startswith("tstr_")]
    header: list[tuple[str, str]] = []
    rows = []
    lost: dict[Run, str] = {}
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        columns = Columns()
        for title, metric, unit in COLUMNS:
            columns.add("", title, _column(shown, of, metric, unit))
            if metric in set(printed["metric"]):
                columns.add("", f"{title}, paper", published_column(pick(printed, dataset=dataset, metric=metric)))
        header = columns.header
        group = shown.label(dataset)
        partly, own = set(runs_in(pick(of, source="partly_synthetic"))), collapsed(of)
        lost |= own
        for run in shown.foremost_first(runs_in(of)):
            label = shown.names.run(run) + (PARTLY if run in partly else "") + own.get(run, "")
            rows.append((group, label, columns.row(run)))
        rows += [(group, shown.names.word(name), columns.row(name)) for name in REFERENCES]
    notes = told(
        shown,
        "TSTR: a predictor learns from generated sequences, as many as there are real training ones, and is tested on "
        "real test sequences; X, and where a method does not generate them actions and contexts, are real rows in the "
        "generated set. Factual: the model's own probability of the observed outcomes. A constant 0.5 has RMSE 0.500 "
        "on outcomes 0 and 1, whatever the data; AUC above 0.5 and RMSE below the base rate's are the least that a "
        "useful model shows. Federated methods are ranked, by dataset.",
        explained([cell for _, _, cells in rows for cell in cells]),
        EXPLAINED,
        rules(lost.values()),
    )
    return Table(header, rows, shown.caption, notes, frame, ("Data set", "Method"))


def downstream(frame: pd.DataFrame, metric: str, unit: str = "pooled") -> pd.DataFrame:
    """Return a method's own rows of ``metric``: of predictors trained on what it generated, or of itself."""
    of = pick(frame, metric=metric, unit=unit, prediction="")
    if metric.startswith("tstr_"):
        return of[of["of_source"].isin(SYNTHETIC)]
    return of


def _column(shown: Shown, of: pd.DataFrame, metric: str, unit: str) -> Column:
    mine = downstream(of, metric, unit)
    beside = {name: pick(of, metric=metric, unit=unit, **wanted) for name, wanted in REFERENCES.items()}
    return bracketed(
        marked(mine, *shown.names.ranking(runs_in(mine)), largest=metric.endswith("auc"), beside=beside), mine
    )
