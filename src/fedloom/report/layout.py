"""A table as it is printed: cells with marks, written as Markdown, LaTeX (booktabs) and tidy CSV."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
LONG = 40
"""Letters from which text is a sentence, and may break into lines."""

NUMBER = re.compile(r"[-+±<>≤≥∞−]*\s*[\d∞]")


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


def shown(table: Table) -> Table:
    """Return the table without the columns in which no row has anything, and without such levels of its index."""
    kept = [i for i in range(len(table.header)) if any(cells[i].text != EMPTY for _, _, cells in table.rows)]
    rows = [(group, label, [cells[i] for i in kept]) for group, label, cells in table.rows]
    return replace(table, header=[table.header[i] for i in kept], rows=rows)


def of_numbers(table: Table) -> list[bool]:
    """Return which columns are of numbers: most of what stands in them begins like one, and nothing is a sentence."""
    found = []
    for column in range(len(table.header)):
        texts = [cells[column].text for _, _, cells in table.rows if cells[column].text != EMPTY]
        begun = sum(bool(NUMBER.match(text)) for text in texts)
        found.append(2 * begun >= len(texts) and all(len(text) <= LONG for text in texts))
    return found


def markdown(table: Table, name: str) -> str:
    """Return the table as a Markdown document: title, pipe table, notes.

    Numbers are set to the right; the index alone is set to the left by a sign of its own, by which pages know it.
    """
    table = shown(table)
    grouped = any(group for group, _, _ in table.rows)
    index = list(table.index) if grouped else [table.index[1]]
    header = [*index, *("<br>".join(safe(level) for level in levels if level) for levels in table.header)]
    sides = [":---" for _ in index] + ["---:" if numbers else "---" for numbers in of_numbers(table)]
    lines = [pipes(header), pipes(sides)]
    last = None
    for group, label, cells in table.rows:
        texts = [MARKDOWN[cell.mark].format(safe(cell.text)) for cell in cells]
        of = ["" if group == last else safe(group)] if grouped else []
        lines.append(pipes([*of, safe(label), *texts]))
        last = group
    return "\n".join([f"# {title(name)}: {safe(table.caption)}", "", *lines, "", safe(table.notes), ""])


def latex(table: Table, name: str) -> str:
    """Return the table as a LaTeX float that needs the package booktabs alone."""
    table = shown(table)
    text = [[LATEX[cell.mark].format(escape_latex(cell.text)) for cell in cells] for _, _, cells in table.rows]
    index = [(escape_latex(group), escape_latex(label)) for group, label, _ in table.rows]
    columns = [tuple(escape_latex(level) for level in levels) for levels in table.header]
    frame = pd.DataFrame(
        text,
        index=pd.MultiIndex.from_tuples(index, names=table.index),
        columns=pd.MultiIndex.from_tuples(columns) if columns else None,
    )
    body: str = frame.style.to_latex(
        column_format="ll" + "".join("r" if numbers else "l" for numbers in of_numbers(table)),
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
