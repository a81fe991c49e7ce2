"""Tables and text of the page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table (HTML) of cells that are text; the columns ``numbers`` are set to the right."""
    style = [' style="text-align:right"' if i in numbers else "" for i in range(len(header))]
    head = "".join(f"<th{s}>{html.escape(name)}</th>" for s, name in zip(style, header, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{s}>{html.escape(cell)}</td>" for s, cell in zip(style, row, strict=True)) + "</tr>"
        for row in rows
    )
    return _wide(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>")


def rendered(text: str) -> str:
    """Return Markdown with its tables as HTML."""
    return _wide(MarkdownIt("commonmark").enable("table").render(text))


def _wide(body: str) -> str:
    """Let each table scroll on its own where it is wider than the page."""
    return body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
