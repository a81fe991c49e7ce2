"""Did the codebook find what made the data? Prototypes against the true regimes of generated panels."""

from __future__ import annotations

import pandas as pd

from fedloom.evaluation.forecast.regimes import SIGNAL
from fedloom.report.forecast.comparison import number
from fedloom.report.labels import run_label
from fedloom.report.layout import Cell, Table
from fedloom.report.shown import Shown
from fedloom.report.summary import HEADLINE, rows_of, summarise


def regimes(shown: Shown) -> Table:
    """Normalised mutual information by variant beside its error, and the error that nobody can go below."""
    tidy = summarise(shown)
    tidy = tidy[tidy["metric"].isin(["nmi", "mae"]) & (tidy["horizon"] == "all") & (tidy["selection"] == "selected")]
    columns = [
        ("NMI, mean of nodes", {"metric": "nmi", "unit": "mean"}),
        ("NMI, pooled", {"metric": "nmi", "unit": "pooled"}),
        ("MAE", {"metric": "mae", **HEADLINE}),
        ("MAE of the signal", {"metric": "mae", **HEADLINE, "condition": SIGNAL}),
    ]
    header, cells = [], []
    for dataset in shown.datasets:
        for label, series in columns:
            of = tidy[(tidy["dataset"] == dataset) & (tidy[list(series)] == pd.Series(series)).all(axis=1)]
            found = {(row["method"], row["variant"]): Cell(number(row)) for _, row in of.iterrows()}
            header.append((shown.label(dataset), label))
            cells.append(found)
    names = dict.fromkeys((method, variant) for _, method, variant in rows_of(shown))
    rows = [("Codebook", run_label(*name), [column.get(name, Cell()) for column in cells]) for name in names]
    notes = (
        "NMI: normalised mutual information between the prototype with the largest weight in a test window and the "
        "true regime at the window's last input step; 0 means that prototypes say nothing of the regime, 1 that each "
        "determines the other. MAE of the signal: the error of the noiseless signal itself as the forecast, which no "
        "forecast can expect to go below, and which could be reached only by one that knows the regimes to come. "
        f"Mean ± standard deviation over seeds. {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, tidy)
