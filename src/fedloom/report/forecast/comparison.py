"""Tables that set methods or variants against each other on every dataset: Table 1, Table 2 and their like."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pandas as pd

from fedloom.report.captions import told
from fedloom.report.cells import Columns, Grouping, marked
from fedloom.report.convergence import EXPLAINED, as_numbers, converged, late_gains
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.names import Run, run_of
from fedloom.report.numbers import headline, summarise
from fedloom.report.shown import Shown, runs_in
from fedloom.report.significance import Other, add_tests, against

DECIMALS = 2


@dataclass(frozen=True)
class ComparisonOptions:
    """Which rows stand together, which are ranked together, and against which all are tested.

    ``groups`` lists runs (``method`` or ``method/variant``) by group, ``rest`` is the group of all others; without them
    methods stand in their own groups. ``ranked``: groups within which best and second are marked, a row for each
    ranking. ``labels`` renames runs here. ``against``: the run of the paired tests; without it the best of the first
    ranking in each column.
    """

    ranked: tuple[tuple[str, ...], ...]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rest: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    against: str = ""
    metrics: tuple[str, ...] = ("mae", "rmse")


def comparison(shown: Shown, options: ComparisonOptions) -> Table:
    """Set runs against each other: errors by dataset, the published value beside ours.

    Best and second are marked within each ranking; rows of no ranking that come out ahead of the best of the first one
    get a dagger.
    """
    own = {run: shown.names.group_of(run) for run in runs_in(shown.runs)}
    groups = Grouping(options.groups, options.rest).of(own, own)
    ranked = [group for ranking in options.ranked for group in ranking]
    shown.names.require_groups(ranked, f"{shown.where}: options.ranked", (*options.groups, options.rest))
    if options.against:
        choose, versus = against(run_of(options.against)), shown.names.run(run_of(options.against))
    else:
        choose, versus = _best_of(options.ranked[0], groups), "the best ranked method of the column"
    tidy = add_tests(summarise(shown), shown, choose)
    gains = late_gains(shown)
    columns = Columns()
    for dataset in shown.datasets:
        for metric in options.metrics:
            of = tidy[headline(tidy) & (tidy["dataset"] == dataset) & (tidy["metric"] == metric)]
            title = shown.names.word(metric)
            columns.add(shown.label(dataset), title, marked(of, groups, options.ranked, DECIMALS))
            printed = of.set_index(["method", "variant"])["published"]
            if printed.notna().any():
                cells = {run: Cell(f"{v:.{DECIMALS}f}" if v == v else EMPTY) for run, v in printed.items()}
                columns.add(shown.label(dataset), f"{title}, paper", cells)
        seeds = of.set_index(["method", "variant"])[["seeds", "diverged"]].sum(axis=1)
        if seeds.nunique() > 1:
            columns.add(shown.label(dataset), "Seeds", {run: Cell(str(count)) for run, count in seeds.items()})
        columns.add(shown.label(dataset), "Converged", converged(gains[gains["dataset"] == dataset]))
    labels = {run_of(named): label for named, label in options.labels.items()}
    rows = [(group, labels.get(run) or shown.names.run(run), columns.row(run)) for run, group in groups.items()]
    notes = told(
        shown,
        "Pooled over nodes, windows and the whole horizon; missing readings left out; weights of the round that was "
        "best in validation; mean ± standard deviation over seeds.",
        _rankings(options),
        columns.explained,
        EXPLAINED if len(gains) else "",
        "The csv also holds horizons 3, 6 and 12, means over nodes, unmasked errors, the last round's weights, and "
        f"paired tests over nodes and time (seeds averaged) against {versus}.",
    )
    numbers = pd.concat([tidy, as_numbers(gains)], ignore_index=True) if len(gains) else tidy
    return Table(columns.header, rows, shown.caption, notes, numbers)


def _rankings(options: ComparisonOptions) -> str:
    """Say which groups are ranked together, where there is more than one ranking."""
    if len(options.ranked) < 2:
        return ""
    return f"Ranked apart: {'; '.join(' and '.join(ranking) for ranking in options.ranked)}."


def _best_of(ranking: Collection[str], groups: dict[Run, str]) -> Other:
    """Choose the row with the least error among those of a ranking."""

    def choose(rows: pd.DataFrame) -> Run | None:
        inside = [groups[run] in ranking for run in zip(rows["method"], rows["variant"], strict=True)]
        if not any(inside):
            return None
        best = rows.loc[rows.loc[inside, "ours_mean"].idxmin()]
        return best["method"], best["variant"]

    return choose
