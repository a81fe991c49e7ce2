"""From tidy numbers to cells: "mean ± deviation", marks of the best, published values, groups of rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedloom.report.layout import EMPTY, Cell, Mark
from fedloom.report.names import Run, run_of

DECIMALS = 3
LOST = re.compile(r" \[\d+/\d+\]")
UNVERIFIED = "verified=no"
AHEAD = "†: does not compete and is not ranked, but is ahead of the best that is."

Column = Mapping[Any, Cell]
"""Row -> cell. A row is a method's variant (``Run``), or the name (``str``) of one that no method makes."""


@dataclass(frozen=True)
class Grouping:
    """``groups`` of runs by their names in print, and the group of the ``rest``; without any, groups of methods."""

    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rest: str = ""

    def of(self, runs: Iterable[Run], default: Mapping[Run, str]) -> dict[Run, str]:
        """Run -> its group: a chosen one, that of the rest, or its ``default``; ordered by group, then as given."""
        chosen = {run_of(named): group for group, runs_of in self.groups.items() for named in runs_of}
        found = {run: chosen.get(run, self.rest or default[run]) for run in runs}
        order = list(dict.fromkeys([*self.groups, *found.values()]))
        return {run: found[run] for run in sorted(found, key=lambda run: order.index(found[run]))}


@dataclass
class Columns:
    """A table made column by column: rows look up their cells, and a column without one leaves a dash."""

    header: list[tuple[str, str]] = field(default_factory=list)
    cells: list[Column] = field(default_factory=list)

    def add(self, above: str, title: str, column: Column) -> None:
        """Add a column under two levels of header."""
        self.header.append((above, title))
        self.cells.append(column)

    def row(self, key: Run | str) -> list[Cell]:
        """The cells of a row."""
        return [column.get(key, Cell()) for column in self.cells]

    @property
    def explained(self) -> str:
        """What the marks mean that there are."""
        return explained([cell for column in self.cells for cell in column.values()])


def text(row: pd.Series, decimals: int = DECIMALS) -> str:
    """Return mean ± deviation over finished seeds in print; where no seed has one, ``diverged`` or the reason."""
    if np.isnan(row["ours_mean"]):
        return "diverged" if row["diverged"] else str(row["note"]).replace("_", " ") or EMPTY
    spread = "" if np.isnan(row["ours_sd"]) else f" ± {row['ours_sd']:.{decimals}f}"
    lost = f" [{row['seeds']}/{row['diverged'] + row['seeds']}]" if row["diverged"] else ""
    return f"{row['ours_mean']:.{decimals}f}{spread}{lost}"


def first(frame: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of the first row; a dash where there is none."""
    return Cell(text(frame.iloc[0], decimals)) if len(frame) else Cell()


def alike(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row a metric of numbers that are the same for all runs; without a deviation, which says nothing."""
    return frame.drop_duplicates(["metric"]).assign(ours_sd=np.nan)


def mean_over(frame: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of the mean over the rows of ``frame`` (such as held-out sets), without a deviation.

    Where any of them is null its reason stands there: a mean over fewer sets would be another quantity.
    """
    null = frame[frame["ours_mean"].isna()]
    if len(null):
        return Cell("diverged" if null["diverged"].any() else str(null["note"].iloc[0]))
    return Cell(f"{frame['ours_mean'].mean():.{decimals}f}") if len(frame) else Cell()


def marked(
    frame: pd.DataFrame,
    groups: Mapping[Run, str] | None = None,
    rankings: Collection[Collection[str]] = (("",),),
    decimals: int = DECIMALS,
    largest: bool = False,
    beside: Mapping[str, pd.DataFrame] | None = None,
) -> dict[Any, Cell]:
    """Return the cells of ``frame`` by run, best and second of every ranking marked (see ``rank``).

    Without ``groups`` all rows are ranked together. The smallest value is the best, or with ``largest`` the largest.
    ``beside`` are rows that no method makes, by name: they compete with nothing, and each has the cell of its first.
    """
    by_run = frame.set_index(["method", "variant"])
    rows: dict[Any, pd.Series] = {run: by_run.loc[run] for run in by_run.index}
    grouped: dict[Any, str] = dict.fromkeys(rows, "") if groups is None else dict(groups)
    rows |= {name: found.iloc[0] for name, found in (beside or {}).items() if len(found)}
    marks = rank(rows, grouped, rankings, decimals, largest)
    return {key: Cell(text(row, decimals), marks.get(key, "")) for key, row in rows.items()}


def rank(
    rows: Mapping[Any, pd.Series],
    groups: Mapping[Any, str],
    rankings: Collection[Collection[str]],
    decimals: int,
    largest: bool = False,
) -> dict[Any, Mark]:
    """Return the marks of rows; equal printed values share one. A method that lost a seed is not ranked.

    Best and second are marked within each collection of groups in ``rankings``; rows of no ranking, or of no group,
    that come out ahead of the best of the first one are marked too.
    """
    sign = -1 if largest else 1
    values = {
        run: sign * round(float(row["ours_mean"]), decimals)
        for run, row in rows.items()
        if not np.isnan(row["ours_mean"]) and not row["diverged"]
    }
    marks: dict[Any, Mark] = {}
    for position, ranking in enumerate(rankings):
        inside = {run: value for run, value in values.items() if groups.get(run) in ranking}
        places = sorted(set(inside.values()))
        for mark, value in zip(("best", "second"), places[:2] if len(inside) > 1 else [], strict=False):
            marks |= {run: mark for run, found in inside.items() if found == value}
        if position == 0 and places:
            ranked = {group for names in rankings for group in names}
            marks |= {run: "ahead" for run, v in values.items() if groups.get(run) not in ranked and v < places[0]}
    return marks


def explained(cells: Collection[Cell]) -> str:
    """Say what the marks mean that there are among ``cells``."""
    sentences = [
        "Best in bold, second underlined." if any(cell.mark == "best" for cell in cells) else "",
        AHEAD if any(cell.mark == "ahead" for cell in cells) else "",
        "[n/m]: n of m seeds finished, the others diverged." if any(LOST.search(cell.text) for cell in cells) else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def published_column(found: pd.DataFrame, decimals: int = DECIMALS) -> dict[Run, Cell]:
    """Return the cells of published values by run."""
    return {run: published_cell(of, decimals) for run, of in found.groupby(["method", "variant"], sort=False)}


def published_cell(found: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of a published value; an asterisk marks one that was transcribed and not verified."""
    if found.empty:
        return Cell()
    row = found.iloc[0]
    return Cell(f"{row['value']:.{decimals}f}{'*' if UNVERIFIED in row['condition'] else ''}")


def transcribed(cells: Iterable[Cell]) -> str:
    """Say what an asterisk means, where there is one among ``cells``."""
    there = any(cell.text.endswith("*") for cell in cells)
    return "*: from another project's transcription, not verified." if there else ""
