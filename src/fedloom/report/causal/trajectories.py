"""What data causal studies are run on, how they were dealt to clients, and by which protocol methods were trained."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from fedloom.data.trajectories.table import TrajectorySet, flat_steps, read_trajectories
from fedloom.errors import InputError
from fedloom.partition.dirichlet import DECILES
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition
from fedloom.report.causal.cells import published
from fedloom.report.figure import Figure
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.shown import Shown

ALPHAS = (10.0, 1.0, 0.1)
WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 2.1, 0.5
COUNTS = (
    ("sequences", "rows", ("rows", "sequences")),
    ("longest", "longest", ("longest", "lmax")),
    ("dx", "dx", ("dx",)),
    ("da", "da", ("da",)),
    ("actions", "actions", ("actions",)),
)
"""Header, what the data call it, and the names that a published value of it may have."""

REASONS = {
    "dkt-synth": "the published generator is not public; ours is described with its settings",
    "statics2011": "the rule behind the published number of sequences is not known: chunks of 200 answers give fewer; "
    "actions are five levels of difficulty here, since no single item has support",
    "statics2011-items": "the rule behind the published number of sequences is not known: chunks of 200 answers give "
    "fewer; the published number of actions counts the padding id",
    "diabetes130": "rare combinations of drugs are one action, 'other'",
    "diabetes130-paper": "rare combinations of drugs are one action, 'other'",
    "openbandit-random": "the rule behind the published numbers is not known; these are all rows of a campaign",
    "openbandit-bts": "the rule behind the published numbers is not known; these are all rows of a campaign",
}


def datasets(shown: Shown) -> Table:
    """Set each dataset's size beside the paper's, with the reason where the two differ."""
    header = [level for title, *_ in COUNTS for level in (("", title), ("", f"{title}, paper"))]
    header += [("", "owners"), ("", "left out")]
    rows, reasons, records = [], [], []
    for dataset in shown.datasets:
        about, cells = shown.panels[dataset], []
        differs = False
        for title, key, names in COUNTS:
            paper = [float(cell.text) for cell in published(shown, dataset, names, "table1").values()]
            cells += [Cell(f"{about[key]:,}"), Cell(f"{paper[0]:,.0f}" if paper else EMPTY)]
            differs |= bool(paper) and paper[0] != about[key]
            records.append(
                {"dataset": dataset, "number": title, "ours": about[key], "paper": paper[0] if paper else None}
            )
        left_out = "; ".join(f"{count:,} {reason}" for reason, count in about["exclusions"].items() if count)
        rows.append(("", shown.label(dataset), [*cells, Cell(f"{about['owners']:,}"), Cell(left_out or "none")]))
        if differs and dataset in REASONS:
            reasons.append(f"{shown.label(dataset)}: {REASONS[dataset]}.")
    notes = f"After preprocessing. dx: numbers known of an owner; da: of a step. {' '.join(reasons)}".strip()
    return Table(header, rows, shown.caption, notes, pd.DataFrame(records))


def protocol(shown: Shown) -> Table:
    """Say how every dataset was dealt and methods were trained, as it was run."""
    header = [("", shown.label(dataset)) for dataset in shown.datasets]
    columns = [_protocol(shown, dataset) for dataset in shown.datasets]
    items = list(dict.fromkeys(item for column in columns for item in column))
    rows = [("", item, [Cell(column.get(item, EMPTY)) for column in columns]) for item in items]
    tidy = pd.DataFrame(columns, index=shown.datasets).rename_axis("dataset").reset_index()
    return Table(header, rows, shown.caption, f"The same for all methods. {shown.facts}", tidy)


def _protocol(shown: Shown, dataset: str) -> dict[str, str]:
    runs = shown.runs[shown.runs["dataset"] == dataset]
    record: dict[str, Any] = json.loads((runs["folder"].iloc[0] / "run.json").read_text(encoding="utf-8"))
    asked, deal = record["spec"]["protocol"], shown.partitions.get(dataset, {})
    clients = len(record["clients"])
    found = {"clients": str(clients)}
    if deal:
        label = "tenth of mean outcome" if deal["label"] == "decile" else "given label"
        found["partition"] = f"Dirichlet, α = {deal['alpha']:g}, by {label}"
        found["parts"] = "70 / 10 / 20 % of owners"
        found["anchors (off, on)"] = f"{deal['anchors']['off']}, {deal['anchors']['on']}"
        found["clients that never take them"] = ", ".join(str(len(deal["clients_without"][a])) for a in ("off", "on"))
    taking_part = max(1, round(asked.get("participation", 1) * clients))
    found |= {"clients a round": f"{taking_part} of {clients}", "rounds": str(asked.get("rounds", EMPTY))}
    found |= {"local epochs": str(asked.get("epochs", EMPTY)), "batch": str(asked.get("batch", EMPTY))}
    found["aggregation"] = "mean weighted by training sequences"
    found["traffic"] = "4 bytes a shared number, each selected client, up and down"
    return found


def partition(shown: Shown) -> Figure:
    """Draw, a row a dataset, how many sequences each client trains on and of which outcomes, by concentration."""
    names = shown.datasets
    size = (WIDTH, ROW_HEIGHT * len(names) + LEGEND_HEIGHT)
    drawn, axes = plt.subplots(len(names), len(ALPHAS), figsize=size, squeeze=False, sharey="row")
    colours = plt.get_cmap("viridis")(np.linspace(0, 1, DECILES))
    for row, dataset in zip(axes, names, strict=True):
        data = read_trajectories(shown.places[dataset])
        deal = shown.partitions.get(dataset, {})
        settings = TrajectoryPartitionSettings(**{each.name: deal[each.name] for each in fields(TrajectoryPartitionSettings) if each.name in deal})
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
    drawn.legend(patches, labels, loc="outside lower center", ncols=3)
    notes = (
        "Training sequences of each client, by tenth of their owner's mean outcome (equal means are told apart by a "
        "hash, so that tenths are equally large); α is the concentration of the Dirichlet distribution that the owners "
        "of a label, their tenth or one that the data give, are dealt by. Two of three show what it would have been."
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
