"""What the documents name exists, what they count is counted right, and the picture of the layers is today's."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|yaml|toml))`")
# What README.md lets a reader write or build.
OF_READERS = {
    "config/datasets/mine.yaml", "data/mine.csv", "config/scales/mine.yaml", "config/datasets/counts.yaml",
    "config/scales/counts.yaml", "config/datasets/lock.json", "src/fedloom/methods/median.py",
    "config/scales/median.yaml", "config/datasets/mytrips.yaml", "config/scales/mytrips.yaml",
    "config/datasets/mylog.yaml", "config/scales/mylog.yaml", "config/datasets/myseries.yaml",
    "config/scales/myseries.yaml", "runs/", "about.json", "report.html", "panel/", "trajectories/", "series/",
    "partition/",
}  # fmt: skip


def walks(repository: Path) -> dict[str, str]:
    """Title -> text of the walks of the architecture's page."""
    text = (repository / "docs" / "architecture.md").read_text()
    text = text.partition("\n## Four walks\n")[2].partition("\n## ")[0]
    return {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(repository: Path, page: str) -> None:
    named = set(PATH.findall((repository / page).read_text())) - OF_READERS
    places = (repository, repository / "src" / "fedloom")
    assert [path for path in sorted(named) if not any((place / path).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file(repository: Path, page: str) -> None:
    place = (repository / page).parent
    assert [link for link in LINK.findall((repository / page).read_text()) if not (place / link).exists()] == []


def test_the_walks_count_their_modules_right(repository: Path) -> None:
    assert len(walks(repository)) == 4
    for title, text in walks(repository).items():
        steps = re.findall(r"^\| \w+ \((\d+)\) \| (.*?) \|", text, re.MULTILINE)
        modules = [re.findall(r"`([\w/]+\.py)`", listed) for _, listed in steps]
        assert [int(count) for count, _ in steps] == [len(names) for names in modules], title
        total = re.search(r"^(\d+) modules", text, re.MULTILINE)
        assert total is not None
        assert int(total[1]) == len({name for names in modules for name in names}), title


def test_the_picture_of_the_layers_is_that_of_the_code(repository: Path) -> None:
    spec = importlib.util.spec_from_file_location("draw_layers", repository / "docs" / "draw_layers.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    assert drawing.recorded(drawing.PICTURE) == drawing.parts(), "run: python docs/draw_layers.py"
