"""What a run costs: numbers that its clients hold, bytes that they send, seconds that it takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedloom.report.captions import budget, told
from fedloom.report.figure import MEGABYTE
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import ROW
from fedloom.report.shown import Shown

COSTS = ["clients", "held", "least", "most", "total", "once_bytes", "epoch_bytes", "all_bytes", "seconds"]


def costs(shown: Shown) -> pd.DataFrame:
    """Return one row a run, under its dataset, method, variant and seed.

    ``clients``; numbers of the models that a client holds (``held``, mean; ``least``, ``most``) and that there are in
    all (``total``, a centre's or server's own too); bytes that all clients send up before training, for a centre to
    collect (``once_bytes``), in the last epoch (``epoch_bytes``) and in all (``all_bytes``), where what goes from
    client to client and the gradient on its way back count once each;
    ``seconds`` of the run, validation and autoencoding with it, for each of its epochs.
    """
    rows = []
    for run in shown.runs.itertuples():
        record = shown.record(run.folder)
        held = np.array(record["client_parameters"], dtype=np.float64)
        log = shown.rounds(run.folder)
        sent = log[log["quantity"] == "bytes_up"].groupby("round")["value"].sum()
        # A centre's clients send nothing while it trains: what the log has of them is what they handed over.
        central = record["central_parameters"] > 0 and not held.any()
        once, epoch = (float(sent.sum()), 0.0) if central else (0.0, float(sent.iloc[-1]) if len(sent) else 0.0)
        timing = pd.read_parquet(run.folder / "timing.parquet").iloc[0]
        rows.append(
            {name: getattr(run, name) for name in (*ROW, "seed")}
            | {"clients": len(held), "held": held.mean(), "least": held.min(), "most": held.max()}
            | {"total": held.sum() + record["central_parameters"]}
            | {"once_bytes": once, "epoch_bytes": epoch, "all_bytes": float(sent.sum())}
            | {"seconds": timing["seconds"] / max(1, timing["rounds"])}
        )
    return pd.DataFrame(rows, columns=[*ROW, "seed", *COSTS])


def mean_costs(shown: Shown) -> pd.DataFrame:
    """Return ``costs`` as means over seeds, one row a dataset, method and variant, in the order of a table."""
    found = costs(shown)
    return found.groupby(ROW, sort=False)[COSTS].mean().reset_index()


def cost_table(shown: Shown) -> Table:
    """Set model sizes, traffic and time of all methods side by side, dataset by dataset."""
    frame = mean_costs(shown)
    header = [
        ("Numbers of the model", "a client, mean"),
        ("Numbers of the model", "least to most"),
        ("Numbers of the model", "in all"),
        ("Sent by all clients", "MB before"),
        ("Sent by all clients", "MB an epoch"),
        ("Sent by all clients", "MB in all"),
        ("", "s a run / epochs"),
    ]
    notes = told(
        shown,
        "Numbers that clients need to forecast; what pre-training alone uses does not count, and what a centre or "
        "server trains counts in all. A MB is 10⁶ bytes at 4 bytes a number; what goes from client to client and "
        "gradients on their way back count once each. Before: what a centre collects before the first epoch. An epoch: "
        "the last one; where the first sends more or less, all is no multiple of it. Seconds are a whole run's, "
        "validation and pre-training with it, over its epochs, on this machine with what else it had to do; mean over "
        "seeds.",
        budget(shown),
    )
    return Table(header, list(_rows(shown, frame)), shown.caption, notes, frame, ("Data set", "Method"))


def _rows(shown: Shown, frame: pd.DataFrame) -> Iterator[tuple[str, str, list[Cell]]]:
    for row in frame.itertuples():
        group = f"{shown.label(row.dataset)}, {row.clients:.0f} clients"
        cells = [
            f"{row.held:,.0f}",
            f"{row.least:,.0f}" if row.least == row.most else f"{row.least:,.0f} to {row.most:,.0f}",
            f"{row.total:,.0f}",
            megabytes(row.once_bytes),
            megabytes(row.epoch_bytes),
            megabytes(row.all_bytes),
            f"{row.seconds:.2f}",
        ]
        yield group, shown.names.run((row.method, row.variant)), [Cell(text) for text in cells]


def megabytes(count: float) -> str:
    """Bytes in print as MB of 10⁶ bytes."""
    return "0" if count == 0 else f"{count / MEGABYTE:,.3g}" if count < 1000 * MEGABYTE else f"{count / MEGABYTE:,.0f}"
