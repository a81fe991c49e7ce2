"""The page's section on data: what they are, what was repaired, whose they are, and the hashes of their files."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.artifacts import read_json
from fedloom.data.raw import sha256
from fedloom.report.markup import PageTable

HASHES = (
    "Raw files as they were fetched, by the source that had them, and the tables built of them, which every run here "
    "was trained on and judged by."
)


def data_tables(
    reports: Sequence[dict[str, Any]],
    licences: Mapping[str, str],
    labels: Mapping[str, str],
    files: Iterable[Path],
) -> list[PageTable]:
    """Return the tables of data that say ``reports`` of themselves, which tells which family's they are.

    ``licences`` and ``labels`` are those of the page; ``files`` are notes beside raw files (json) and built tables
    (parquet), each in a folder below that of its dataset. The last table is that of hashes.
    """
    panels, sequences, series = ([r for r in reports if key in r] for key in ("nodes", "owners", "domains"))
    tables = []
    if panels:
        header = ["Dataset", "Part", "Steps", "Nodes", "Interval", "Unit", "Missing", "Repairs"]
        rows = [_who(report, labels) + _panel(report) for report in panels]
        tables.append(PageTable("data_panels", header, rows, (2, 3, 4, 6)))
    if sequences:
        header = ["Dataset", "Part", "Sequences", "Owners", "Longest", "Actions", "Outcome", "Left out"]
        rows = [_who(about, labels) + _sequences(about) for about in sequences]
        tables.append(PageTable("data_trajectories", header, rows, (2, 3, 4, 5)))
    if series:
        header = ["Federation", "Part", "Client", "Domain", "Series", "Points", "Missing", "Cleaned", "Left out"]
        rows = [_who(about, labels) + _client(about, client) for about in series for client in about["clients"]]
        tables.append(PageTable("data_series", header, rows, (4, 5, 6), shared=2))
    rows = [[labels.get(name, name), licence] for name, licence in licences.items()]
    tables.append(PageTable("licences", ["Dataset", "Title and licence"], rows))
    return [
        *tables,
        PageTable("hashes", ["Dataset", "File", "From", "SHA-256"], [_hash(path, labels) for path in files]),
    ]


def data_section(tables: Sequence[PageTable]) -> str:
    """Return the section (HTML) of data from ``data_tables``."""
    *about, hashes = (table.html for table in tables)
    about.append(f"<h3>Files and their hashes</h3>\n<p>{html.escape(HASHES)}</p>\n{hashes}")
    return f'<section id="data">\n<h2>Data</h2>\n{"".join(about)}\n</section>'


def _hash(path: Path, labels: Mapping[str, str]) -> list[str]:
    if path.suffix == ".json":
        note, dataset = read_json(path, "where a raw file came from"), path.parent.name
        return [labels.get(dataset, dataset), note["name"], note["source"], note["sha256"]]
    dataset = path.parents[1].name
    return [labels.get(dataset, dataset), f"{path.parent.name}/{path.name}", "built here", sha256(path)]


def _who(about: dict[str, Any], labels: Mapping[str, str]) -> list[str]:
    return [labels.get(about["dataset"], about["dataset"]), about["part"] or "the whole"]


def _panel(report: dict[str, Any]) -> list[str]:
    steps, nodes, interval = f"{report['rows']:,}", f"{report['nodes']:,}", f"{report['interval_minutes']} min"
    return [steps, nodes, interval, report["unit"], f"{report['missing_share']:.2%}", _counts(report["repairs"])]


def _sequences(about: dict[str, Any]) -> list[str]:
    sizes = [f"{about[key]:,}" for key in ("rows", "owners", "longest", "actions")]
    return [*sizes, about["unit"], _counts(about["exclusions"])]


def _client(about: dict[str, Any], client: str) -> list[str]:
    seen = " (seen by a downstream task)" if client in about["seen"] else ""
    sizes = [f"{about['counts'][client][key]:,}" for key in ("series", "points", "missing")]
    done = [_counts(about[key].get(client, {})) for key in ("cleaned", "exclusions")]
    return [client + seen, about["domains"][client], *sizes, *done]


def _counts(done: dict[str, int]) -> str:
    return "; ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in sorted(done.items()) if n) or "none"
