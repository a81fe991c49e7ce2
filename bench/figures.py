"""Figures of what was measured: throughput and growth."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedloom.report.figure import Figure, dots, grid, legend, style, write_figure


def throughput(table: pd.DataFrame, out: Path) -> None:
    """Client-samples a second over clients, a panel a model and batch, a line a program."""
    with style():
        models, batches = list(dict.fromkeys(table["model"])), sorted(set(table["batch"]))
        drawn, axes = grid(len(models), len(batches), 1.9, below=0.4, sharex=True)
        look = dots(table["program"])
        handles = {}
        for (row, model), (column, batch) in ((r, c) for r in enumerate(models) for c in enumerate(batches)):
            ax = axes[row, column]
            chosen = table[(table["model"] == model) & (table["batch"] == batch)]
            for program, line in chosen.groupby("program", sort=False):
                drawn_as = look[program] | {"ls": "-"}
                (handles[str(program)],) = ax.loglog(line["clients"], line["samples_per_second"], **drawn_as)
            ax.set(title=f"{model}, batch {batch}", xlabel="clients", ylabel="client-samples / s")
        legend(drawn, handles, 4)
        threads, device = table["threads"].iloc[0], table["device"].iloc[0]
        caption = f"Training throughput on {device}, {threads} threads"
        write_figure(Figure(drawn, caption, "Medians of alternated runs; all programs reach the same weights."), out)


def growth(table: pd.DataFrame, out: Path) -> None:
    """Seconds and peak memory of a round along every axis, on log axes."""
    with style():
        drawn, axes = grid(1, 2, 2.4, below=0.4)
        handles = {}
        look = dots(table["axis"])
        for ax, what, label in ((axes[0, 0], "seconds", "s"), (axes[0, 1], "peak_megabytes", "MB")):
            for axis, line in table.groupby("axis", sort=False):
                (handles[str(axis)],) = ax.loglog(line["size"], line[what], **look[axis] | {"ls": "-"})
            ax.set(xlabel="how many", ylabel=f"{label} a round")
        legend(drawn, handles, 4)
        write_figure(Figure(drawn, "Growth of a round", "One axis grows, the others stay."), out)
