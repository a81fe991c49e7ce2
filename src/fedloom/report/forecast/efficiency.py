"""What clients train against what they send: Figure 5 of Atlas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from fedloom.report.captions import told
from fedloom.report.figure import Figure, dots, legend, tiles
from fedloom.report.numbers import ROW
from fedloom.report.shown import Shown, runs_in

BYTES_A_NUMBER = 4
HEIGHT, LEGEND_HEIGHT = 3.6, 0.9
RATIOS = (0.01, 1, 100, 10_000)
ROOM = 2.5  # times beyond the outermost points


def efficiency(shown: Shown) -> Figure:
    """Draw, a panel a dataset, numbers sent in a round against numbers trained, with lines of equal ratio."""
    frame = _loads(shown)
    drawn_rows = frame[(frame["trained"] > 0) & (frame["sent"] > 0)]
    styles = dots(shown.foremost_first(runs_in(drawn_rows)))
    drawn, axes = tiles(len(shown.datasets), 2, HEIGHT, LEGEND_HEIGHT)
    handles: dict[str, Any] = {}
    for ax, dataset in zip(axes, shown.datasets, strict=False):
        of = drawn_rows[drawn_rows["dataset"] == dataset]
        for row in of.itertuples():
            run = (row.method, row.variant)
            # Hollow, since methods that share all but a head lie upon each other.
            look = {**styles[run], "ms": 8, "mfc": "none", "mew": 1.5}
            (handles[shown.names.run(run)],) = ax.plot(row.trained, row.sent, zorder=3, **look)
        ax.set(xscale="log", yscale="log", title=shown.label(dataset))
        ax.set(xlabel="numbers that a client trains", ylabel="numbers that it sends in a round")
        _ratios(ax, of)
    legend(drawn, handles, 4)
    notes = told(
        shown,
        "Trained: the parameters of a client's module, with those that only help to train. Sent: uploads by the "
        f"ledger, mean over clients and rounds, at {BYTES_A_NUMBER} bytes a number. Grey lines: numbers trained "
        "for each one sent, as written on them.",
        _left_out(shown, frame),
    )
    return Figure(drawn, shown.caption, notes)


def _loads(shown: Shown) -> pd.DataFrame:
    """One row a dataset, method and variant: numbers that a client trains, and sends in a round; means over seeds.

    ``central``: whether clients hold nothing and a centre trains, to which they only hand over readings.
    """
    rows = []
    for run in shown.runs.itertuples():
        record, log = shown.record(run.folder), shown.rounds(run.folder)
        up = log.loc[log["quantity"] == "bytes_up", "value"]
        central = record["central_parameters"] > 0 and not any(record["client_parameters"])
        trained = 0 if central else record["parameters"]
        sent = float(up.mean()) / BYTES_A_NUMBER if len(up) else 0.0
        who = {name: getattr(run, name) for name in ROW}
        rows.append(who | {"trained": trained, "sent": sent, "central": central})
    means = pd.DataFrame(rows).groupby(ROW, sort=False).mean().reset_index()
    return means.astype({"central": "bool"})


def _ratios(ax: Axes, of: pd.DataFrame) -> None:
    """Draw lines of equal ratio through the panel, each named where it leaves."""
    if of.empty:
        return
    low_x, high_x = of["trained"].min() / ROOM, of["trained"].max() * ROOM
    low_y, high_y = of["sent"].min() / ROOM, of["sent"].max() * ROOM
    ax.set(xlim=(low_x, high_x), ylim=(low_y, high_y))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=12))
        axis.set_minor_formatter(NullFormatter())
    for ratio in RATIOS:
        x = np.array([low_x, high_x])
        ax.plot(x, x / ratio, color="0.6", lw=0.8, ls=(0, (4, 2)), zorder=1)
        end = min(high_x, high_y * ratio)
        if low_x < end and low_y < end / ratio:
            ax.annotate(
                f"{ratio:,.6g} : 1", (end, end / ratio), xytext=(-2, 2), textcoords="offset points",
                ha="right", va="bottom", fontsize=7.5, color="0.35", zorder=2,
            )  # fmt: skip


def _left_out(shown: Shown, frame: pd.DataFrame) -> str:
    """Say which methods have no place between the axes, and why."""
    reasons = {
        "they send nothing": frame[~frame["central"] & (frame["trained"] > 0) & (frame["sent"] == 0)],
        "a centre trains, to which clients hand over their readings once": frame[frame["central"]],
        "they train nothing": frame[~frame["central"] & (frame["trained"] == 0)],
    }
    said = [
        f"{', '.join(dict.fromkeys(shown.names.run(run) for run in runs_in(rows)))} ({why})"
        for why, rows in reasons.items()
        if len(rows)
    ]
    return f"Not drawn: {'; '.join(said)}." if said else ""
