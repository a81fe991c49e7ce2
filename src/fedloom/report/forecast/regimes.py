"""Did the codebook find what made the data? Prototypes against the true regimes of generated panels."""

from __future__ import annotations

from fedloom.evaluation.forecast.regimes import LEVEL, SIGNAL
from fedloom.report.captions import told
from fedloom.report.cells import Columns, text
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import HEADLINE, pick, summarise
from fedloom.report.shown import Shown, runs_in

DECIMALS = 2
COLUMNS = (
    ("NMI, mean of nodes", {"metric": "nmi", "unit": "mean", "condition": ""}),
    ("NMI, pooled", {"metric": "nmi", "unit": "pooled", "condition": ""}),
    ("NMI of the level, mean of nodes", {"metric": "nmi", "unit": "mean", "condition": LEVEL}),
    ("MAE", {"metric": "mae", **HEADLINE}),
    ("MAE of the signal", {"metric": "mae", **HEADLINE, "condition": SIGNAL}),
)


def regimes(shown: Shown) -> Table:
    """Normalised mutual information by variant beside its error, and the error that nobody can go below."""
    tidy = summarise(shown)
    tidy = tidy[tidy["metric"].isin(["nmi", "mae"]) & (tidy["horizon"] == "all") & (tidy["selection"] == "selected")]
    columns = Columns()
    for dataset in shown.datasets:
        for title, wanted in COLUMNS:
            of = pick(tidy, dataset=dataset, **wanted)
            found = {(row["method"], row["variant"]): Cell(text(row, DECIMALS)) for _, row in of.iterrows()}
            columns.add(shown.label(dataset), title, found)
    rows = [("Codebook", shown.names.run(run), columns.row(run)) for run in runs_in(shown.runs)]
    notes = told(
        shown,
        "NMI: normalised mutual information between the prototype with the largest weight in a test window and the "
        "true regime at the window's last input step; 0 means that prototypes say nothing of the regime, 1 that each "
        "determines the other. NMI of the level: the same of the window's mean reading, in as many levels as there "
        "are prototypes in use; readings alone say that much. MAE of the signal: the error of the noiseless signal "
        "itself as the forecast, which no forecast can expect to go below, and which could be reached only by one that "
        "knows the regimes to come. "
        "Mean ± standard deviation over seeds.",
    )
    return Table(columns.header, rows, shown.caption, notes, tidy)
