"""Clients that joined late: errors on those held out, by how they learned and by the share that had federated before.

Table 3 of Atlas and its like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedloom.errors import InputError
from fedloom.report.captions import told
from fedloom.report.cells import text
from fedloom.report.layout import Cell, Table
from fedloom.report.names import run_of
from fedloom.report.numbers import HEADLINE, ROW, published
from fedloom.report.shown import Shown

DECIMALS = 3
METRICS = ("rmse", "mae")  # the first is printed
COLUMNS = [*ROW, "share", "held_out", "metric", "ours_mean", "ours_sd", "seeds", "diverged", "published", "note"]


@dataclass(frozen=True)
class TransferOptions:
    """``rows``: the way in which the clients that were held out learned -> what it is called in print.

    Runs on these clients alone are the way ``started`` where they start from a run and ``anew`` where they do not;
    ``among_all`` names, by way, runs on all clients, of which the ones held out are looked at.
    """

    rows: dict[str, str]
    started: str
    anew: str
    among_all: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a way that has no name in print."""
        for way in (self.started, self.anew, *self.among_all):
            if way not in self.rows:
                raise ValueError(f"rows: expected a name in print of {way!r}, found those of {', '.join(self.rows)}")


def transfer(shown: Shown, options: TransferOptions) -> Table:
    """Set ways of learning against each other, by the share of clients that had federated before: RMSE, held out."""
    tidy = _tidy(shown, options)
    printed = tidy[tidy["metric"] == METRICS[0]]
    title = shown.names.word(METRICS[0])
    header, columns = [], []
    for share in sorted(set(printed["share"])):
        of = printed[printed["share"] == share]
        by_row = {(row["dataset"], row["variant"]): row for _, row in of.iterrows()}
        header.append((f"{share} %", title))
        columns.append({key: Cell(text(row, DECIMALS)) for key, row in by_row.items()})
        if of["published"].notna().any():
            header.append((f"{share} %", f"{title}, paper"))
            columns.append({k: Cell(f"{r['published']:.2f}") for k, r in by_row.items() if r["published"] > 0})
    rows = [
        (shown.label(dataset), label, [column.get((dataset, way), Cell()) for column in columns])
        for dataset in shown.datasets
        for way, label in options.rows.items()
    ]
    counts = printed.drop_duplicates(["dataset", "share"])
    held = ", ".join(f"{row.held_out} at {row.share} % on {shown.label(row.dataset)}" for row in counts.itertuples())
    notes = told(
        shown,
        f"Errors on the clients that were held out ({held}), pooled over them, windows and the whole horizon. The "
        "columns' share of clients, rounded down, are the first of one order a seed, so that smaller shares lie within "
        "larger ones; the rest are held out, so that columns are errors on different clients.",
        _read_off(options),
        "Weights of the round that was best in validation; mean ± standard deviation over seeds. The csv also holds "
        "the MAE.",
    )
    return Table(header, rows, shown.caption, notes, tidy, ("Data set", "Held-out clients"))


def _read_off(options: TransferOptions) -> str:
    """Say which rows come from runs on all clients, and what that changes."""
    named = [options.rows[way] for way in options.among_all]
    if not named:
        return ""
    return (
        f"{'; '.join(named)}: read off runs on all clients; where no client gets anything of others these are "
        "what runs on the held-out ones alone would be, but for the round, which all clients' validation chose."
    )


def _tidy(shown: Shown, options: TransferOptions) -> pd.DataFrame:
    """One row a dataset, way, share and metric (``COLUMNS``)."""
    found = pd.DataFrame(list(_values(shown, options)))
    if found.empty:
        raise InputError(f"{shown.where}: expected runs on the rest of the clients, found none")
    groups = found.groupby(["dataset", "method", "variant", "share", "metric"], sort=False)
    tidy = groups["value"].agg(ours_mean="mean", ours_sd="std", seeds="count").reset_index()
    tidy["held_out"] = groups["held_out"].first().to_numpy()
    tidy["diverged"] = groups["value"].agg(lambda values: values.isna().sum()).to_numpy()
    tidy["note"] = groups["reason"].agg(lambda reasons: "; ".join(dict.fromkeys(reasons.dropna()))).to_numpy()
    keys = ["dataset", "variant", "of_share", "metric"]
    in_print = published(shown).reindex(columns=[*keys, "value"]).set_index(keys)["value"].to_dict()
    asked = zip(tidy["dataset"], tidy["variant"], tidy["share"].astype(str), tidy["metric"], strict=True)
    tidy["published"] = [in_print.get(key, np.nan) for key in asked]
    return tidy[COLUMNS]


def _values(shown: Shown, options: TransferOptions) -> Iterator[dict[str, Any]]:
    """Yield the error of each run on each set of held-out clients that it has something to say of."""
    nodes = shown.metrics[(shown.metrics[["selection", "horizon", "condition"]] == _asked()).all(axis=1)]
    nodes = nodes[nodes["metric"].isin(METRICS)]
    by_run = dict(list(nodes.groupby([*ROW, "seed"])))
    records = {row.folder: shown.record(row.folder) for row in shown.runs.itertuples()}
    held: dict[tuple[str, int, int], list[str]] = {}
    for run in shown.runs.itertuples():
        record = records[run.folder]
        if record["spec"].get("clients", {}).get("part") == "rest":
            share = round(100 * record["spec"]["clients"]["share"])
            held[run.dataset, run.seed, share] = record["clients"]
    ways = {run_of(named): way for way, named in options.among_all.items()}
    for run in shown.runs.itertuples():
        spec = records[run.folder]["spec"]
        if "clients" in spec:
            way = options.started if "start" in spec else options.anew
            shares = [round(100 * spec["clients"]["share"])] if spec["clients"]["part"] == "rest" else []
        else:
            way = ways.get((run.method, run.variant), "")
            shares = [share for dataset, seed, share in held if (dataset, seed) == (run.dataset, run.seed)]
        own = by_run[run.dataset, run.method, run.variant, run.seed]
        for share in shares if way else []:
            clients = held[run.dataset, run.seed, share]
            who = {"dataset": run.dataset, "method": run.method, "variant": way, "share": share}
            for metric in METRICS:
                of = own[(own["metric"] == metric) & own["unit"].isin(clients)]
                reason = of["reason"].dropna()
                yield who | {
                    "metric": metric,
                    "held_out": len(clients),
                    "value": _pooled(metric, of["value"].to_numpy(), of["n"].to_numpy()),
                    "reason": run.reason or (None if of["value"].notna().any() else reason.iloc[0]),
                }


def _asked() -> pd.Series:
    return pd.Series({name: HEADLINE[name] for name in ("selection", "horizon", "condition")})


def _pooled(metric: str, value_C: np.ndarray, n_C: np.ndarray) -> float:
    """The error over all readings of some clients, from each client's own and its count of readings."""
    scored = ~np.isnan(value_C)
    if not scored.any():
        return float("nan")
    sums = n_C[scored] * (value_C[scored] ** 2 if metric == "rmse" else value_C[scored])
    mean = float(sums.sum() / n_C[scored].sum())
    return mean**0.5 if metric == "rmse" else mean
