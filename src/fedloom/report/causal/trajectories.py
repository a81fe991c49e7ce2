"""What data causal studies are run on, how they were dealt to clients, and by which protocol methods were trained."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from fedloom.data.trajectories.owners import SHARES
from fedloom.data.trajectories.table import TrajectorySet, flat_steps, read_trajectories
from fedloom.errors import InputError
from fedloom.partition.dirichlet import DECILES
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition
from fedloom.report.captions import told
from fedloom.report.figure import Figure, grid, legend
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.numbers import published
from fedloom.report.shown import Shown

ALPHAS = (10.0, 1.0, 0.1)
ROW_HEIGHT, LEGEND_HEIGHT = 2.1, 0.5
COUNTS = (
    ("sequences", "rows", ("rows", "sequences")),
    ("longest", "longest", ("longest", "lmax")),
    ("dx", "dx", ("dx",)),
    ("da", "da", ("da",)),
    ("actions", "actions", ("actions",)),
)
"""Header, what the data call it, and the names that a published value of it may have."""


@dataclass(frozen=True)
class SizeOptions:
    """``reasons``: dataset -> why its numbers differ from the published ones, said where they do."""

    reasons: dict[str, str] = field(default_factory=dict)


def trajectory_sizes(shown: Shown, options: SizeOptions) -> Table:
    """Set each dataset's size beside the paper's, with the reason where the two differ."""
    header = [level for title, *_ in COUNTS for level in (("", title), ("", f"{title}, paper"))]
    header += [("", "owners"), ("", "left out")]
    rows, reasons, records = [], [], []
    for dataset in shown.datasets:
        about, cells, differs = shown.panels[dataset], [], False
        of_paper = published(shown, dataset=dataset).set_index("metric")["value"]
        for title, key, names in COUNTS:
            paper = next((float(of_paper[name]) for name in names if name in of_paper), None)
            cells += [Cell(f"{about[key]:,}"), Cell(EMPTY if paper is None else f"{paper:,.0f}")]
            differs |= paper is not None and paper != about[key]
            records.append({"dataset": dataset, "number": title, "ours": about[key], "paper": paper})
        left_out = "; ".join(f"{count:,} {reason}" for reason, count in about["exclusions"].items() if count)
        rows.append(("", shown.label(dataset), [*cells, Cell(f"{about['owners']:,}"), Cell(left_out or "none")]))
        if differs and dataset in options.reasons:
            reasons.append(f"{shown.label(dataset)}: {options.reasons[dataset]}.")
    notes = told(shown, "After preprocessing. dx: numbers known of an owner; da: of a step.", *reasons)
    return Table(header, rows, shown.caption, notes, pd.DataFrame(records), ("", "Data set"))


def protocol(shown: Shown) -> Table:
    """Say how every dataset was dealt and methods were trained, as it was run."""
    header = [("", shown.label(dataset)) for dataset in shown.datasets]
    columns = [_protocol(shown, dataset) for dataset in shown.datasets]
    items = list(dict.fromkeys(item for column in columns for item in column))
    rows = [("", item, [Cell(column.get(item, EMPTY)) for column in columns]) for item in items]
    tidy = pd.DataFrame(columns, index=shown.datasets).rename_axis("dataset").reset_index()
    return Table(header, rows, shown.caption, told(shown, "The same for all methods."), tidy, ("", "Setting"))


def _protocol(shown: Shown, dataset: str) -> dict[str, str]:
    runs = shown.runs[shown.runs["dataset"] == dataset]
    record = shown.record(runs["folder"].iloc[0])
    asked, deal = record["spec"]["protocol"], shown.partitions.get(dataset, {})
    clients = len(record["clients"])
    found = {"clients": str(clients)}
    if deal:
        label = "tenth of mean outcome" if deal["label"] == "decile" else "given label"
        found["partition"] = f"Dirichlet, α = {deal['alpha']:g}, by {label}"
        found["parts"] = f"{' / '.join(f'{100 * share:.0f}' for share in SHARES.values())} % of owners"
        found["anchors (off, on)"] = f"{deal['anchors']['off']}, {deal['anchors']['on']}"
        found["clients that never take them"] = ", ".join(str(len(deal["clients_without"][a])) for a in ("off", "on"))
    taking_part = max(1, round(asked.get("participation", 1) * clients))
    found |= {"clients a round": f"{taking_part} of {clients}", "rounds": str(asked.get("rounds", EMPTY))}
    found |= {"local epochs": str(asked.get("epochs", EMPTY)), "batch": str(asked.get("batch", EMPTY))}
    found["aggregation"] = "mean weighted by training sequences"
    found["traffic"] = "4 bytes a shared number, each selected client, up and down"
    return found


def dealt(shown: Shown) -> Figure:
    """Draw, a row a dataset, how many sequences each client trains on and of which outcomes, by concentration."""
    names = shown.datasets
    drawn, axes = grid(len(names), len(ALPHAS), ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    colours = plt.get_cmap("viridis")(np.linspace(0, 1, DECILES))
    for row, dataset in zip(axes, names, strict=True):
        data = read_trajectories(shown.places[dataset])
        deal = shown.partitions.get(dataset, {})
        known = {each.name for each in fields(TrajectoryPartitionSettings)} & deal.keys()
        settings = TrajectoryPartitionSettings(**{name: deal[name] for name in known})
        for ax, alpha in zip(row, ALPHAS, strict=True):
            try:
                _draw_deal(ax, counts_by_decile(data, replace(settings, alpha=alpha)), colours)
            except InputError:
                ax.text(0.5, 0.5, "a client would\nbe left empty", transform=ax.transAxes, ha="center", va="center")
                ax.set(xticks=[])
            ax.set_xlabel(f"client, α = {alpha:g}{', as run' if alpha == deal.get('alpha') else ''}")
        row[0].set(title=shown.label(dataset), ylabel="training sequences")
    patches = [Rectangle((0, 0), 1, 1, color=colours[i]) for i in (0, DECILES // 2, DECILES - 1)]
    labels = ["lowest tenth of mean outcome", "middle", "highest tenth"]
    legend(drawn, dict(zip(labels, patches, strict=True)), 3)
    notes = told(
        shown,
        "Training sequences of each client, by tenth of their owner's mean outcome (equal means are told apart by a "
        "hash, so that tenths are equally large); α is the concentration of the Dirichlet distribution that the owners "
        "of a label, their tenth or one that the data give, are dealt by. Two of three show what it would have been.",
    )
    return Figure(drawn, shown.caption, notes)


def counts_by_decile(data: TrajectorySet, settings: TrajectoryPartitionSettings) -> NDArray[np.int64]:
    """Return numbers of training sequences [clients, 10] by client and tenth of mean outcome."""
    assignment = make_trajectory_partition(data, settings).assignment
    table = data.table.sort_values("id", kind="stable", ignore_index=True)
    steps = flat_steps(TrajectorySet(table, data.about))
    owner = np.unique(table["owner"].to_numpy(np.str_), return_inverse=True)[1]
    mean = np.bincount(owner[steps.row], weights=steps.y) / np.bincount(owner[steps.row])
    train = (assignment["part"] == "train").to_numpy()
    ranks = np.argsort(np.argsort(mean[owner[train]], kind="stable"), kind="stable")
    decile = ranks * DECILES // max(1, len(ranks))
    found = np.zeros((settings.clients, DECILES), dtype=np.int64)
    np.add.at(found, (assignment["client"].to_numpy()[train], decile), 1)
    return found


def _draw_deal(ax: Axes, counts: NDArray[np.int64], colours: Any) -> None:
    below = np.zeros(len(counts))
    for decile, colour in enumerate(colours):
        ax.bar(np.arange(len(counts)), counts[:, decile], bottom=below, color=colour, width=0.9)
        below += counts[:, decile]
    ax.set(xticks=range(len(counts)) if len(counts) <= 12 else [])
    ax.grid(visible=False, axis="x")
