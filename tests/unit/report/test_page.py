"""The page shows everything and needs nothing beside it."""

from __future__ import annotations

import hashlib
import html
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from fedloom.config.names import read_names
from fedloom.data.raw import Note, land, note_path
from fedloom.errors import InputError
from fedloom.report.figure import style, write_figure
from fedloom.report.layout import Cell, Table, write_table
from fedloom.report.markup import PageTable
from fedloom.report.page import Page, page, write_page
from fedloom.report.registry import drawing

from .conftest import CONFIG, Workshop, drawn

ABOUT = "It shows that all works & nothing else."
LICENCES = {"pems08-tail": "Loop detectors: CC BY & more"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOOK = """
const images = [...document.images], root = document.documentElement, found = document.createElement("pre");
const letters = [...document.querySelectorAll("p, td, th, h3")].map(e => parseFloat(getComputedStyle(e).fontSize));
found.id = "found";
found.textContent = JSON.stringify({
  images: images.length, broken: images.filter(i => !i.complete || !i.naturalWidth).length,
  sideways: root.scrollWidth - root.clientWidth, letters: Math.min(...letters),
});
document.body.append(found);
"""
FETCHING = {"src", "href", "srcset", "data", "poster", "action"}


class Links(HTMLParser):
    """Collects what a browser would fetch, and whether every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in FETCHING]
        if tag not in {"meta", "img", "br", "hr", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def built(workshop: Workshop, references: Path) -> Workshop:
    """Runs with a table and a figure of them."""
    workshop.panel(
        "pems08-tail", part="last 7156 steps of PEMS08", repairs={"inserted_steps": 12, "duplicate_stamps": 0}
    )
    workshop.run("atlas", 3.0)
    workshop.run("fedper", 3.5)
    workshop.run("fedavg", 4.0, diverged="loss of client a is not finite in round 2, batch 1")
    workshop.run("atlas", 20.0, dataset="pems08-tail")
    write_table(drawn(workshop.show("table1", references)), workshop.root / "atlas" / "table1")
    with style():
        write_figure(drawn(workshop.show("figure_curves")), workshop.root / "atlas" / "figure_curves")
    return workshop


def paged(built: Workshop, stems: list[Path]) -> Page:
    """Return the page that shows the artifacts ``stems``."""
    named = LICENCES, read_names(CONFIG / "names.yaml"), {"metr-la": "METR-LA"}
    return page(
        "quick", {"atlas": "Every Client Is an Environment"}, stems, built.runs, built.panels, *named, about=ABOUT
    )


def write(built: Workshop) -> str:
    """Return the page of everything that was built."""
    stems = [built.root / "atlas" / name for name in ("table1", "figure_curves")]
    return paged(built, stems).html


def test_the_page_fetches_nothing_and_is_well_formed(built: Workshop) -> None:
    links = Links()
    links.feed(write(built))
    assert links.open == []
    assert all(link.startswith(("data:", "#")) for link in links.found)
    assert sum(link.startswith("data:image/png;base64,") for link in links.found) == 1
    assert "@import" not in write(built)
    assert "url(" not in write(built)


def test_the_page_shows_titles_captions_repairs_and_verdicts(built: Workshop) -> None:
    text = write(built)
    for expected in (
        "Every Client Is an Environment",
        "Table 1: What is shown",
        "Figure (curves): What is shown",
        "last 7156 steps of PEMS08",
        "12 inserted steps",
        "diverged: loss of client a is not finite in round 2, batch 1",
        "<strong>3.00</strong>",
        "Loop detectors: CC BY &amp; more",
    ):
        assert expected in text
    assert "duplicate" not in text


def test_the_page_tells_costs_protocols_and_where_runs_were_trained(built: Workshop) -> None:
    text = write(built)
    cells = "".join(
        f'<td style="text-align:right">{value}</td>' for value in ("0", "5", "3", "12.3", "0.0096", "0", "456")
    )
    assert f'<td style="text-align:left">Atlas</td>{cells}<td>finished</td>' in text
    left, right = ' style="text-align:left"', ' style="text-align:right"'
    who = f"<td{left}>METR-LA</td><td{left}>FedAvg, FedPer, Atlas</td>"
    assert f"{who}<td{right}>3</td><td{right}>5</td>" in text
    assert f"<td{left}>cpu</td><td>x86_64</td><td>3.11</td><td>2.13</td><td>2.1</td>" in text


def test_the_page_begins_with_what_its_scale_is_good_for(built: Workshop) -> None:
    assert write(built).index(html.escape(ABOUT)) < write(built).index("4 runs, 1 of them diverged")


def test_what_the_page_alone_tells_stands_in_csv_files(built: Workshop, tmp_path: Path) -> None:
    made = paged(built, [])
    write_page(made, tmp_path / "report.html")
    for table in made.tables:
        found = pd.read_csv(tmp_path / "report" / f"{table.name}.csv", dtype=str, keep_default_na=False)
        assert len(found) == len(table.rows)
        assert f"report/{table.name}.csv" in made.html
    runs = pd.read_csv(tmp_path / "report" / "runs.csv")
    assert runs["MB up"].tolist() == pytest.approx([0.0096] * 4)


def test_rows_that_share_what_they_are_about_say_it_once_on_the_page_and_always_in_the_csv() -> None:
    table = PageTable("t", ["a", "b", "c"], [("x", "y", "1,000"), ("x", "y", "2"), ("x", "z", "3")], [2], shared=2)
    assert table.html.count(">y<") == 1
    assert table.html.count(">x<") == 2
    assert table.frame.to_numpy().tolist() == [["x", "y", "1000"], ["x", "y", "2"], ["x", "z", "3"]]


def test_what_differs_from_a_paper_stands_with_its_study(built: Workshop, tmp_path: Path) -> None:
    notes = tmp_path / "atlas.md"
    notes.write_text(
        "# Atlas\n\nA line.\n\n## What it reproduces\n\nAll.\n\n## What differs\n\n- Seeds are **ours**.\n"
    )
    named = LICENCES, read_names(CONFIG / "names.yaml"), {}
    shown = page("quick", {"atlas": "Atlas"}, [], built.runs, built.panels, *named, notes=[notes]).html
    assert "<h3>What differs</h3>" in shown
    assert "Seeds are <strong>ours</strong>." in shown
    assert "What it reproduces" not in shown


def test_hashes_of_raw_files_and_of_built_tables_stand_beside_the_data(built: Workshop, tmp_path: Path) -> None:
    raw, table = tmp_path / "raw" / "metr-la" / "values", tmp_path / "data" / "metr-la" / "panel" / "values.parquet"
    for path, content in ((raw, b"raw"), (table, b"built")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    land(raw, raw, Note("h5", hashlib.sha256(b"raw").hexdigest(), "mirror", "metr-la.h5"))
    named = LICENCES, read_names(CONFIG / "names.yaml"), {"metr-la": "METR-LA"}
    shown = page("quick", {}, [], built.runs, built.panels, *named, files=[note_path(raw), table]).html
    for row in (
        ("METR-LA", "metr-la.h5", "mirror", hashlib.sha256(b"raw").hexdigest()),
        ("METR-LA", "panel/values.parquet", "built here", hashlib.sha256(b"built").hexdigest()),
    ):
        first, *rest = row
        long = ' class="long"'
        cells = "".join(f"<td{long if len(cell) > 40 else ''}>{cell}</td>" for cell in rest)
        assert f'<td style="text-align:left">{first}</td>{cells}' in shown


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("width", [390, 1440], ids=["phone", "desktop"])
def test_a_browser_shows_the_page_whole_and_without_complaint(built: Workshop, tmp_path: Path, width: int) -> None:
    look = tmp_path / "look.html"
    look.write_text(write(built).replace("</body>", f"<script>{LOOK}</script></body>"))
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--enable-logging=stderr", f"--window-size={width},900", "--virtual-time-budget=2000", "--dump-dom",
         look.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    found = json.loads(html.unescape(done.stdout.split('<pre id="found">')[1].split("</pre>")[0]))
    assert found["images"] == 1
    assert found["broken"] == 0
    assert found["sideways"] <= 0
    assert found["letters"] >= 12


def test_sentences_of_claims_may_break_into_lines(built: Workshop) -> None:
    frame = pd.DataFrame({"claim": ["better"]})
    table = Table([("", "verdict")], [("It is better", "all", [Cell("holds here")])], "What is claimed", "", frame)
    write_table(table, built.root / "atlas" / "claims")
    named = LICENCES, read_names(CONFIG / "names.yaml"), {}
    shown = page(
        "quick", {"atlas": "Atlas"}, [], built.runs, built.panels, *named, [built.root / "atlas" / "claims"]
    ).html
    assert shown.count('<article class="sentences">') == 1
    assert "<h3>Claims: What is claimed</h3>" in shown
    assert "holds here" in shown


def test_the_page_is_the_same_when_written_again(built: Workshop) -> None:
    assert write(built) == write(built)


def test_an_artifact_that_is_not_there_is_named(built: Workshop) -> None:
    with pytest.raises(InputError, match="table9"):
        paged(built, [built.root / "atlas" / "table9"])


def test_an_unknown_drawing_function_is_refused_with_what_there_is() -> None:
    with pytest.raises(InputError, match=r"artifacts.table9.draw: expected one of ablations, accuracy, .*'nothing'"):
        drawing("nothing", "artifacts.table9.draw")
