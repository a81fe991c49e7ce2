"""How many clients, records and windows each dataset has, beside those that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.models.bilstm import CALENDAR
from fedloom.report.captions import budget, told
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.numbers import published
from fedloom.report.shown import Shown

HEADER = [("", name) for name in ("clients", "records a client", "input", "output", "left out or mended")]
ROLES = {"active": "forecasting", "passive": "passive"}


def panel_sizes(shown: Shown) -> Table:
    """Set sizes of our datasets beside those that the paper prints: clients, records, inputs and outputs."""
    rows, records = [], []
    for dataset in shown.datasets:
        report, partition = shown.panels[dataset], shown.partitions[dataset]
        repairs = (f"{count:,} {name.replace('_', ' ')}" for name, count in report["repairs"].items())
        mended = "; ".join(repairs) or "none"
        for role, found in _clients(read_panel(shown.places[dataset]), partition):
            sizes = found | {"records": report["rows"], "history": partition["history"]}
            rows.append((shown.label(dataset), ROLES[role], [*_sizes(sizes), Cell(mended)]))
            records.append({"dataset": dataset, "clients_are": role, "source": "ours", **sizes})
    for (dataset, role), of in published(shown).groupby(["dataset", "of_clients"], sort=False):
        sizes = dict(zip(of["metric"], of["value"].astype(int), strict=True))
        rows.append((f"{shown.names.word(dataset)}, paper", ROLES[role], [*_sizes(sizes), Cell()]))
        records.append({"dataset": dataset, "clients_are": role, "source": "paper", **sizes})
    notes = told(
        shown,
        "Input: steps × channels (a reading, hour and weekday, and covariates of a client's own); output: steps. "
        "What is left out or mended: points and trips by reason, and repairs of the time axis.",
        budget(shown),
    )
    return Table(HEADER, rows, shown.caption, notes, pd.DataFrame(records), ("Data set", "Clients"))


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
