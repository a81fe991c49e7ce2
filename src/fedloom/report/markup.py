"""Tables and text of the page."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from markdown_it import MarkdownIt

from fedloom.report.layout import LONG

FOLDER = "report"
"""Folder beside the page, of the csv files of its own tables."""


@dataclass(frozen=True)
class PageTable:
    """A table that the page itself makes, of cells that are text: ``name`` is that of the csv with the same cells.

    ``index``: so many columns say what a row is about; the columns ``numbers`` are set to the right. The first
    ``shared`` columns stay empty on the page where the row above says the same.
    """

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    index: int = 1
    shared: int = 0

    @property
    def html(self) -> str:
        """The table as HTML, with the file that holds it."""
        head = "".join(f"<th{self._style(i)}>{html.escape(name)}</th>" for i, name in enumerate(self.header))
        body = "\n".join(
            f"<tr>{''.join(f'<td{self._style(i, cell)}>{html.escape(cell)}</td>' for i, cell in enumerate(row))}</tr>"
            for row in self._unshared()
        )
        table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        return f"{_wide(table)}\n{beside([f'{FOLDER}/{self.name}.csv'])}"

    @property
    def frame(self) -> pd.DataFrame:
        """The same cells, numbers without the signs that set thousands apart."""
        rows = [[c.replace(",", "") if i in self.numbers else c for i, c in enumerate(row)] for row in self.rows]
        return pd.DataFrame(rows, columns=list(self.header))

    def _unshared(self) -> Iterator[Sequence[str]]:
        last: Sequence[str] = ()
        for row in self.rows:
            alike = bool(self.shared) and list(row[: self.shared]) == last
            last = list(row[: self.shared])
            yield [*[""] * self.shared, *row[self.shared :]] if alike else row

    def _style(self, column: int, cell: str = "") -> str:
        side = "left" if column < self.index else "right" if column in self.numbers else ""
        return (f' style="text-align:{side}"' if side else "") + (' class="long"' if len(cell) > LONG else "")


def rendered(text: str) -> str:
    """Return Markdown with its tables as HTML."""
    return _wide(MarkdownIt("commonmark").enable("table").render(text))


def beside(names: Collection[str]) -> str:
    """Return the line (HTML) that names files beside the page."""
    listed = ", ".join(f"<code>{html.escape(name)}</code>" for name in names)
    return f'<p class="files">Beside this page: {listed}</p>\n'


def _wide(body: str) -> str:
    """Let each table scroll on its own where it is wider than the page."""
    return body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
