"""Tables that set methods or variants against each other on every dataset: Table 1, Table 2 and their like."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pandas as pd

from fedloom.report.labels import METRICS
from fedloom.report.layout import EMPTY, Cell, Mark, Table
from fedloom.report.shown import Shown
from fedloom.report.summary import Other, add_tests, headline, rows_of, summarise

Place = Callable[[str, str], tuple[str, str]]
"""Group and label of a method's variant."""

METRICS_SHOWN = ("mae", "rmse")
DECIMALS = 2


def comparison(
    shown: Shown, place: Place, rankings: Collection[Collection[str]], against: Other, versus: str, notes: str = ""
) -> Table:
    """Set the runs of ``shown`` against each other: MAE and RMSE by dataset, the published value beside ours.

    Best and second are marked within each collection of groups in ``rankings``; rows of no ranking that come out
    ahead of the best of the first one get a dagger. ``against`` chooses the row that the others are tested against,
    ``versus`` says in words which that is.
    """
    tidy = add_tests(summarise(shown), shown, against)
    shown_rows = tidy[headline(tidy)]
    names = list(dict.fromkeys((method, variant) for _, method, variant in rows_of(shown)))
    groups = {name: place(*name)[0] for name in names}
    ordered = sorted(names, key=lambda name: list(dict.fromkeys(groups.values())).index(groups[name]))
    header: list[tuple[str, str]] = []
    columns: list[dict[tuple[str, str], Cell]] = []
    for dataset in shown.datasets:
        for metric in METRICS_SHOWN:
            of = shown_rows[(shown_rows["dataset"] == dataset) & (shown_rows["metric"] == metric)]
            of = of.set_index(["method", "variant"])
            marks = rank({name: of.loc[name] for name in of.index}, groups, rankings)
            header.append((shown.label(dataset), METRICS[metric]))
            columns.append({name: Cell(number(of.loc[name]), marks.get(name, "")) for name in of.index})
            if of["published"].notna().any():
                header.append((shown.label(dataset), f"{METRICS[metric]}, paper"))
                columns.append({name: Cell(_plain(of.loc[name, "published"])) for name in of.index})
    rows = [(*place(*name), [column.get(name, Cell()) for column in columns]) for name in ordered]
    return Table(header, rows, shown.caption, _notes(columns, versus, notes, shown), tidy)


def number(row: pd.Series, decimals: int = DECIMALS) -> str:
    """Return mean ± deviation over finished seeds in print; ``diverged`` where no seed finished."""
    if np.isnan(row["ours_mean"]):
        return "diverged" if row["diverged"] else EMPTY
    spread = "" if np.isnan(row["ours_sd"]) else f" ± {row['ours_sd']:.{decimals}f}"
    lost = f" [{row['seeds']}/{row['diverged'] + row['seeds']}]" if row["diverged"] else ""
    return f"{row['ours_mean']:.{decimals}f}{spread}{lost}"


def rank(
    rows: dict[tuple[str, str], pd.Series],
    groups: dict[tuple[str, str], str],
    rankings: Collection[Collection[str]],
    decimals: int = DECIMALS,
    largest: bool = False,
) -> dict[tuple[str, str], Mark]:
    """Return the marks of rows; equal printed values share one. A method that lost a seed is not ranked.

    The smallest value is the best, or with ``largest`` the largest.
    """
    sign = -1 if largest else 1
    values = {
        name: sign * round(float(row["ours_mean"]), decimals)
        for name, row in rows.items()
        if not np.isnan(row["ours_mean"]) and not row["diverged"]
    }
    marks: dict[tuple[str, str], Mark] = {}
    for position, ranking in enumerate(rankings):
        inside = {name: value for name, value in values.items() if groups[name] in ranking}
        places = sorted(set(inside.values()))
        for mark, value in zip(("best", "second"), places[:2] if len(inside) > 1 else [], strict=False):
            marks |= {name: mark for name, found in inside.items() if found == value}  # type: ignore[misc]
        if position == 0 and places:
            ranked = {group for names in rankings for group in names}
            marks |= {n: "ahead" for n, value in values.items() if groups[n] not in ranked and value < places[0]}
    return marks


def explained(cells: Collection[Cell]) -> str:
    """Say what the marks mean that there are among ``cells``."""
    sentences = [
        "Best in bold, second underlined." if any(cell.mark == "best" for cell in cells) else "",
        "†: not ranked, but ahead of the best that is." if any(cell.mark == "ahead" for cell in cells) else "",
        "[n/m]: n of m seeds finished, the others diverged." if any("[" in cell.text for cell in cells) else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _plain(value: float) -> str:
    return EMPTY if np.isnan(value) else f"{value:.{DECIMALS}f}"


def _notes(columns: list[dict[tuple[str, str], Cell]], versus: str, notes: str, shown: Shown) -> str:
    cells = [cell for column in columns for cell in column.values()]
    sentences = [
        "Pooled over nodes, windows and the whole horizon; missing readings left out; weights of the round that was "
        "best in validation; mean ± standard deviation over seeds.",
        explained(cells),
        notes,
        f"The csv also holds horizons 3, 6 and 12, means over nodes, unmasked errors, the last round's weights, and "
        f"paired tests over nodes and time (seeds averaged) against {versus}.",
        shown.facts,
    ]
    return " ".join(sentence for sentence in sentences if sentence)
