"""The page: every artifact of every study with its caption, the data repairs and the runs, in one HTML file.

The file needs nothing beside it: styles are inline and images are data URIs. Built again from the same artifacts it
is the same bytes. What it tells of data and runs stands in csv files, too.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from fedloom.artifacts import atomic, write_text
from fedloom.data.described import read_about
from fedloom.errors import InputError
from fedloom.report.figure import read_caption
from fedloom.report.layout import ending
from fedloom.report.markup import FOLDER, PageTable, beside, rendered
from fedloom.report.names import Names
from fedloom.report.page_data import data_section, data_tables
from fedloom.report.page_runs import runs_section, runs_tables
from fedloom.report.shown import read_record

LEAVES_OPEN = "docs/studies"
STYLE = Path(__file__).with_name("page.css")


@dataclass(frozen=True)
class Page:
    """The page (HTML), and the tables that stand on it alone."""

    html: str
    tables: tuple[PageTable, ...]


def write_page(made: Page, path: Path) -> None:
    """Write the page to ``path``, and its tables (csv) to the folder ``report`` beside it."""
    for table in made.tables:
        with atomic(path.parent / FOLDER / f"{table.name}.csv") as temporary:
            table.frame.to_csv(temporary, index=False, lineterminator="\n")
    write_text(path, made.html)


def page(
    scale: str,
    titles: Mapping[str, str],
    stems: Sequence[Path],
    runs: Iterable[Path],
    panels: Iterable[Path],
    licences: Mapping[str, str],
    names: Names,
    labels: Mapping[str, str],
    claims: Sequence[Path] = (),
    notes: Sequence[Path] = (),
    files: Sequence[Path] = (),
    about: str = "",
) -> Page:
    """Return the page.

    ``titles`` maps a study to its title, in order; a stem is the path of an artifact without its ending, in a folder
    named as its study, and so are ``claims``, tables of sentences; ``notes`` are pages (md) named as their studies, of
    which it shows what the paper leaves open and what differs from it; ``about`` says what the scale is good for;
    ``licences`` maps a dataset to its title and
    licence, ``labels`` to its name in print; ``files`` are raw files' notes and built tables, whose hashes it shows.
    Raises InputError for an artifact that is neither a table (md) nor a figure (png).
    """
    told = {path.stem: path for path in notes}
    sections = []
    for study, title in titles.items():
        shown, claimed = ([stem for stem in some if stem.parent.name == study] for some in (stems, claims))
        sections.append(_study(study, title, shown, claimed, told.get(study)))
    links = [f'<a href="#{study}">{html.escape(title)}</a>' for study, title in titles.items()]
    links += ['<a href="#data">Data</a>', '<a href="#runs">Runs</a>']
    records = [read_record(folder) for folder in runs]
    reports = [read_about(folder) for folder in panels]
    printed = {r["dataset"]: labels.get(r["dataset"]) or r["part"] or r["dataset"] for r in reports}
    data, of_runs = data_tables(reports, licences, labels, files), runs_tables(records, printed, names)
    said = "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>fedloom: results at scale {html.escape(scale)}</title>",
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>",
            f"<header><h1>Results at scale <em>{html.escape(scale)}</em></h1>",
            *([f'<p class="about">{html.escape(about)}</p>'] if about else []),
            f"<p>{_verdicts(records)}</p>",
            f"<nav>{' '.join(links)}</nav></header>\n<main>",
            *sections,
            data_section(data),
            runs_section(of_runs),
            "</main>\n</body>\n</html>\n",
        ]
    )
    return Page(said, (*data, *of_runs.values()))


def _study(study: str, title: str, stems: Sequence[Path], claims: Sequence[Path], notes: Path | None) -> str:
    parts = [*map(_artifact, stems), *(_artifact(stem, "sentences") for stem in claims)]
    shown = "\n".join([*parts, *([_differences(notes)] if notes else [])])
    return f'<section id="{study}">\n<h2>{html.escape(title)}</h2>\n{shown}\n</section>'


def _artifact(stem: Path, look: str = "numbers") -> str:
    table, picture = ending(stem, "md"), ending(stem, "png")
    if table.is_file():
        heading, _, rest = table.read_text(encoding="utf-8").partition("\n")
        body = rendered(rest)
        caption = MarkdownIt("commonmark").renderInline(heading.removeprefix("# "))
        also = [ending(stem, suffix) for suffix in ("csv", "tex", "md")]
        return f'<article class="{look}">\n<h3>{caption}</h3>\n{body}{_files(also)}</article>'
    if picture.is_file():
        heading, notes = read_caption(picture)
        data = base64.b64encode(picture.read_bytes()).decode()
        image = f'<img alt="{html.escape(heading)}" src="data:image/png;base64,{data}">'
        also = [ending(stem, suffix) for suffix in ("pdf", "png")]
        return (
            f"<article>\n<h3>{html.escape(heading)}</h3>\n<figure>{image}</figure>\n"
            f"<p>{html.escape(notes)}</p>{_files(also)}</article>"
        )
    raise InputError(f"{stem}: expected a table (md) or a figure (png), found neither")


def _differences(notes: Path) -> str:
    """What the page of a study says from its second section on: what is open in the paper, what differs from it."""
    _, *sections = notes.read_text(encoding="utf-8").split("\n## ")
    text = "\n".join(f"### {section}" for section in sections[1:])
    source = f'<p class="files">From <code>{LEAVES_OPEN}/{html.escape(notes.name)}</code></p>'
    return f'<article class="notes">\n{rendered(text)}{source}\n</article>'


def _files(paths: Iterable[Path]) -> str:
    return beside([f"{path.parent.name}/{path.name}" for path in paths])


def _verdicts(records: Sequence[dict[str, Any]]) -> str:
    lost = sum(record["verdict"] == "diverged" for record in records)
    seeds = sorted({record["seed"] for record in records})
    ended = f"{lost} of them diverged" if lost else "all of them finished"
    return f"{len(records)} runs, {ended}; seeds {', '.join(str(seed) for seed in seeds)}."
