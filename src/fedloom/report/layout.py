"""A table as it is printed: cells with marks, written as Markdown, LaTeX (booktabs) and tidy CSV."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from fedloom.artifacts import atomic, write_text

Mark = Literal["", "best", "second", "ahead"]
MARKDOWN = {"": "{}", "best": "**{}**", "second": "<ins>{}</ins>", "ahead": "{}†"}
LATEX = {"": "{}", "best": r"\textbf{{{}}}", "second": r"\underline{{{}}}", "ahead": "{}$^\\dagger$"}
LATEX_SIGNS = {"\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "′": "$'$", "†": r"$\dagger$", "α": r"$\alpha$"}
LATEX_SIGNS |= {sign: "\\" + sign for sign in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
EMPTY = "–"


@dataclass(frozen=True)
class Cell:
    """Text of a cell and the mark that its value earns."""

    text: str = EMPTY
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """``header``: levels of every column (such as dataset and metric); ``rows``: group, label and cells.

    ``caption`` says what is shown, ``notes`` how to read it; ``tidy`` holds all numbers behind it, and more; ``index``
    says what groups and labels are.
    """

    header: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[Cell]]]
    caption: str
    notes: str
    tidy: pd.DataFrame
    index: tuple[str, str] = ("Group", "Method")


def write_table(table: Table, stem: Path) -> None:
    """Write the table to ``stem`` with the endings csv, md and tex; the last part of ``stem`` is its name."""
    with atomic(ending(stem, "csv")) as temporary:
        table.tidy.to_csv(temporary, index=False, lineterminator="\n")
    write_text(ending(stem, "md"), markdown(table, stem.name))
    write_text(ending(stem, "tex"), latex(table, stem.name))


def ending(stem: Path, suffix: str) -> Path:
    """Return ``stem`` with an ending, whatever dots its name holds."""
    return stem.with_name(f"{stem.name}.{suffix}")


def title(name: str) -> str:
    """Return how an artifact is called in print: ``table1`` is Table 1, ``figure_curves`` is Figure (curves)."""
    kind, _, rest = name.partition("_")
    number = kind.lstrip("abcdefghijklmnopqrstuvwxyz")
    word = kind.removesuffix(number).capitalize()
    if number:
        return f"{word} {number}"
    return f"{word} ({rest.replace('_', ' ')})" if rest else word


def markdown(table: Table, name: str) -> str:
    """Return the table as a Markdown document: title, pipe table, notes."""
    header = [*table.index, *("<br>".join(safe(level) for level in levels if level) for levels in table.header)]
    lines = [pipes(header), pipes(["---", "---", *["---:"] * len(table.header)])]
    last = None
    for group, label, cells in table.rows:
        shown = [MARKDOWN[cell.mark].format(safe(cell.text)) for cell in cells]
        lines.append(pipes(["" if group == last else safe(group), safe(label), *shown]))
        last = group
    return "\n".join([f"# {title(name)}: {safe(table.caption)}", "", *lines, "", safe(table.notes), ""])


def latex(table: Table, name: str) -> str:
    """Return the table as a LaTeX float that needs the package booktabs alone."""
    text = [[LATEX[cell.mark].format(escape_latex(cell.text)) for cell in cells] for _, _, cells in table.rows]
    index = [(escape_latex(group), escape_latex(label)) for group, label, _ in table.rows]
    columns = [tuple(escape_latex(level) for level in levels) for levels in table.header]
    frame = pd.DataFrame(
        text,
        index=pd.MultiIndex.from_tuples(index, names=table.index),
        columns=pd.MultiIndex.from_tuples(columns),
    )
    body: str = frame.style.to_latex(
        column_format="ll" + "r" * len(columns),
        hrules=True,
        multirow_align="naive",
        multicol_align="c",
        position_float="centering",
        caption=escape_latex(f"{table.caption}. {table.notes}"),
        label=f"tab:{name}",
    )
    return body


def escape_latex(text: str) -> str:
    """Return ``text`` with the signs that LaTeX would read as commands, or cannot print, replaced."""
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in text)


def pipes(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def safe(text: str) -> str:
    """Return ``text`` with the signs that Markdown would read as marks replaced."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
