"""Tables of forecasting across clients: what data they hold, and how large their errors are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.evaluation.forecast.errors import HELD_OUT, MASKED
from fedloom.models.bilstm import CALENDAR
from fedloom.report.costs import budget
from fedloom.report.forecast.comparison import explained, number, rank
from fedloom.report.labels import run_label
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.shown import Shown
from fedloom.report.summary import add_tests, summarise

METRICS_SHOWN = {"mse": "MSE", "mae": "MAE", "rmse": "RMSE"}
PARTS = (
    ("last 10 %", {"condition": MASKED, "selection": "selected"}),
    ("last 20 %", {"condition": HELD_OUT, "selection": "last"}),
)
SIZES = ("clients", "records", "history", "channels", "horizon")
ROLES = {"active": "forecasting", "passive": "passive"}
PAPER = {"porto": "Porto, paper", "scheveningen": "Scheveningen, paper"}
FEW = 8
"""Federations of at most so many clients are also printed client by client."""


def datasets(shown: Shown) -> Table:
    """Set sizes of our datasets beside those that the paper prints: clients, records, inputs and outputs."""
    header = [("", name) for name in ("clients", "records a client", "input", "output", "left out or mended")]
    rows, records = [], []
    for dataset in shown.datasets:
        report, partition = shown.panels[dataset], shown.partitions[dataset]
        repairs = (
            "; ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report["repairs"].items()) or "none"
        )
        for role, found in _clients(read_panel(shown.places[dataset]), partition):
            sizes = found | {"records": report["rows"], "history": partition["history"]}
            rows.append((shown.label(dataset), ROLES[role], [*_sizes(sizes), Cell(repairs)]))
            records.append({"dataset": dataset, "clients_are": role, "source": "ours", **sizes})
    of_paper = shown.references[shown.references["table"] == shown.name]
    for (dataset, condition), of in of_paper.groupby(["dataset", "condition"], sort=False):
        sizes = dict(zip(of["metric"], of["value"].astype(int), strict=True))
        role = condition.partition("=")[2]
        rows.append((PAPER.get(dataset, dataset), ROLES[role], [*_sizes(sizes), Cell()]))
        records.append({"dataset": dataset, "clients_are": role, "source": "paper", **sizes})
    notes = (
        "Input: steps × channels (a reading, hour and weekday, and covariates of a client's own); output: steps. The "
        "paper does not name its channels. What is left out or mended: points and "
        f"trips by reason, and repairs of the time axis. {budget(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, pd.DataFrame(records))


def _clients(panel: Panel, partition: dict[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each role with how many clients have it, their channels, and how far ahead they look (0 if passive)."""
    roles = panel.nodes["role"] if "role" in panel.nodes else pd.Series("active", index=panel.nodes.index)
    own = pd.Series([name.partition("/")[2] for name in panel.features.columns], dtype="str").value_counts()
    channels = 1 + CALENDAR + own.reindex(panel.nodes.index).fillna(0).astype(int)
    for role in ROLES:
        of = roles.index[roles == role]
        if len(of):
            horizon = int(partition["horizon"]) if role == "active" else 0
            yield role, {"clients": len(of), "channels": int(channels[of].max()), "horizon": horizon}


def _sizes(sizes: dict[str, int]) -> list[Cell]:
    read = f"{sizes['history']} × {sizes['channels']}"
    ahead = str(sizes["horizon"]) if sizes.get("horizon") else EMPTY
    return [Cell(f"{sizes['clients']:,}"), Cell(f"{sizes['records']:,}"), Cell(read), Cell(ahead)]


def accuracy(shown: Shown) -> Table:
    """Errors of all methods on each dataset: pooled, and client by client where there are few; the csv has them all."""
    clients = [str(unit) for unit in shown.metrics["unit"].unique()]
    tidy = add_tests(summarise(shown, tuple(clients)), shown, _local)
    tidy = tidy[tidy["metric"].isin(METRICS_SHOWN) & (tidy["horizon"] == "all")]
    header = [(part, label) for part, _ in PARTS for label in METRICS_SHOWN.values()]
    rows = []
    for dataset in shown.datasets:
        of = tidy[tidy["dataset"] == dataset]
        counted = of.loc[of["ours_mean"].notna(), "unit"].drop_duplicates()
        each = [unit for unit in counted if unit not in ("pooled", "mean")]
        for unit in ("pooled", *(each if len(each) <= FEW else ())):
            group = f"{shown.label(dataset)}: {'all clients' if unit == 'pooled' else unit.replace('_', ' ')}"
            rows += [(group, *row) for row in _rows(of[of["unit"] == unit])]
    marks = explained([cell for _, _, cells in rows for cell in cells])
    notes = (
        "Last 10 %: the test part, weights of the round that was best on the 10 % before. Last 20 %: both, weights of "
        "the last round, as in the paper, whose second part is its test part too. Training sees the first 80 %. "
        "In the unit of the counts (MSE: its square), over all windows and the whole horizon; mean ± standard "
        f"deviation over seeds. {marks} {units(shown)} Of the paper's numbers its text gives none. The csv also holds "
        "every client, and paired tests over clients and time (seeds averaged) against Local LSTM. "
        f"{budget(shown)} {shown.facts}"
    )
    return Table(header, rows, shown.caption, notes, tidy)


def _rows(of: pd.DataFrame) -> list[tuple[str, list[Cell]]]:
    names = list(dict.fromkeys(zip(of["method"], of["variant"], strict=True)))
    columns: list[dict[tuple[str, str], Cell]] = []
    for _, where in PARTS:
        for metric in METRICS_SHOWN:
            part = of[(of["metric"] == metric) & (of[list(where)] == pd.Series(where)).all(axis=1)]
            found = {(row["method"], row["variant"]): row for _, row in part.iterrows()}
            marks = rank(found, dict.fromkeys(found, ""), [{""}])
            columns.append({name: Cell(number(row), marks.get(name, "")) for name, row in found.items()})
    return [(run_label(*name), [column.get(name, Cell()) for column in columns]) for name in names]


def _local(rows: pd.DataFrame) -> tuple[str, str] | None:
    name = ("local_lstm", "base")
    return name if name in set(zip(rows["method"], rows["variant"], strict=True)) else None


def units(shown: Shown) -> str:
    """Say in which unit each dataset is counted."""
    said = [f"{shown.label(dataset)}: {shown.panels[dataset]['unit']}" for dataset in shown.datasets]
    return f"Units: {'; '.join(said)}."


def by_client(shown: Shown, dataset: str, metric: str) -> pd.DataFrame:
    """Return ``metric`` on the test part, mean over seeds, by client (index) and run label (columns)."""
    of = shown.metrics
    where = {"dataset": dataset, "metric": metric, "horizon": "all", **PARTS[0][1]}
    of = of[(of[list(where)] == pd.Series(where)).all(axis=1) & ~of["unit"].isin(["pooled", "mean"])]
    found = of.groupby(["unit", "method", "variant"])["value"].mean().unstack(["method", "variant"])
    found.columns = [run_label(*name) for name in found.columns]
    return found.astype(np.float64)
