"""How useful generated sequences are, and how well observed outcomes are foretold, beside constants and real data."""

from __future__ import annotations

import pandas as pd

from fedloom.report.causal.cells import Column, first, marked, methods, pick, published, tidy
from fedloom.report.labels import run_label
from fedloom.report.layout import Cell, Table
from fedloom.report.shown import Shown

SYNTHETIC = ("synthetic", "partly_synthetic")
PARTLY = " (outcomes alone generated)"
COLUMNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("TSTR AUC", "tstr_auc", ("tstr_auc",)),
    ("TSTR RMSE", "tstr_rmse", ("tstr_rmse",)),
    ("Factual AUC", "auc", ("auc", "factual_auc")),
    ("Factual AUC, mean of clients", "auc", ()),
    ("Factual RMSE", "rmse", ("rmse",)),
)
REFERENCES: dict[str, tuple[str, dict[str, str]]] = {
    "real": ("Trained on real data", {"source": "real", "prediction": ""}),
    "shuffled": ("Trained on shuffled outcomes", {"source": "shuffled", "prediction": ""}),
    "half": ("Constant 0.5", {"source": "", "prediction": "half"}),
    "base_rate": ("Base rate of training", {"source": "", "prediction": "base_rate"}),
}


def utility(shown: Shown) -> Table:
    """Train on synthetic, test on real: a block of rows a dataset, with the paper's numbers beside ours."""
    frame = tidy(shown)
    paper = any(published(shown, dataset, names) for dataset in shown.datasets for _, _, names in COLUMNS)
    header, rows = _header(paper), []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        names = methods(of)
        columns: list[Column] = []
        for title, metric, printed in COLUMNS:
            columns.append(_column(of, metric, "mean" if "mean" in title else "pooled"))
            if paper and title.startswith("TSTR"):
                columns.append(published(shown, dataset, printed))
        group = shown.label(dataset)
        partly = set(methods(pick(of, source="partly_synthetic")))
        labels = {name: run_label(*name) + (PARTLY if name in partly else "") for name in names}
        rows += [(group, labels[name], [column.get(name, Cell()) for column in columns]) for name in names]
        rows += [
            (group, label, [column.get(name, Cell()) for column in columns]) for name, (label, _) in REFERENCES.items()
        ]
    notes = (
        "TSTR: a predictor learns from generated sequences, as many as there are real training ones, and is tested on "
        "real test sequences; X, and where a method does not generate them actions and contexts, are real rows in the "
        "generated set. Factual: the model's own probability of the observed outcomes. A constant 0.5 has RMSE 0.500 "
        "on outcomes 0 and 1, whatever the data; AUC above 0.5 and RMSE below the base rate's are the least that a "
        f"useful model shows. Best of each dataset in bold, second underlined. {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, frame)


def downstream(frame: pd.DataFrame, metric: str, unit: str = "pooled") -> pd.DataFrame:
    """Return a method's own rows of ``metric``: of predictors trained on what it generated, or of itself."""
    of = pick(frame, metric=metric, unit=unit, prediction="")
    if metric.startswith("tstr_"):
        return of[of["of_source"].isin(SYNTHETIC)]
    return of


def _header(paper: bool) -> list[tuple[str, str]]:
    header: list[tuple[str, str]] = []
    for title, _, _ in COLUMNS:
        header.append(("", title))
        if paper and title.startswith("TSTR"):
            header.append(("", f"{title}, paper"))
    return header


def _column(of: pd.DataFrame, metric: str, unit: str) -> Column:
    own = downstream(of, metric, unit)
    groups = dict.fromkeys(methods(own), "")
    column = marked(own, groups, [{""}], largest=metric.endswith("auc"))
    return column | {name: first(pick(of, metric=metric, unit=unit, **s)) for name, (_, s) in REFERENCES.items()}
