"""What the documents name exists, what they count is counted right, and the picture of the layers is today's."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fedloom.check.method import CHECKS
from fedloom.check.problem import CLIENTS, PROTOCOL
from fedloom.check.problems.registry import problem_for
from fedloom.federation.method import Clients, Method
from fedloom.federation.rounds import Federation
from fedloom.methods import registry
from fedloom.report import costs, numbers
from fedloom.report.claims import contradictions
from fedloom.report.claims import tables as claims
from fedloom.report.forecast import transfer

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|yaml|toml))`")
# What README.md lets a reader write or build.
OF_READERS = {
    "config/datasets/mine.yaml", "data/mine.csv", "config/scales/mine.yaml", "config/datasets/counts.yaml",
    "config/scales/counts.yaml", "config/datasets/lock.json", "src/fedloom/methods/median.py",
    "config/scales/median.yaml", "src/fedloom/methods/fedavgm.py",
    "config/datasets/mytrips.yaml", "config/scales/mytrips.yaml",
    "config/datasets/mylog.yaml", "config/scales/mylog.yaml", "config/datasets/myseries.yaml",
    "config/scales/myseries.yaml", "runs/", "about.json", "report.html", "results/atlas",
    "results/runs/mine/mine/atlas/base/seed0", "panel/", "trajectories/", "series/",
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


def script(repository: Path, name: str) -> ModuleType:
    """A script of the documents as a module."""
    spec = importlib.util.spec_from_file_location(name, repository / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_the_layers_is_that_of_the_code(repository: Path) -> None:
    drawing = script(repository, "draw_layers")
    assert drawing.recorded(drawing.PICTURE) == drawing.parts(), "run: python docs/draw_layers.py"


@pytest.mark.slow
def test_the_graph_of_the_rules_is_that_of_snakemake(repository: Path) -> None:
    drawing = script(repository, "draw_rules")
    assert drawing.recorded(drawing.PAGE) == drawing.drawn(drawing.graph()), "run: python docs/draw_rules.py"


def test_arrows_that_a_longer_way_says_too_are_not_drawn(repository: Path) -> None:
    drawn = script(repository, "draw_rules").drawn
    lines = drawn({("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d"), ("b", "b")}).splitlines()
    assert [line.strip() for line in lines if "-->" in line] == ["a --> b", "b --> b", "b --> c", "c --> d"]


def code(repository: Path, page: str, wanted: str) -> str:
    """The only block of Python in ``page`` in which ``wanted`` stands."""
    (found,) = [block for block in BLOCK.findall((repository / page).read_text()) if wanted in block]
    return str(found)


@pytest.fixture
def momentum(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Method]:
    """The method of docs/adding-a-method.md, installed as a package of somebody's own."""
    (tmp_path / "fedavgm.py").write_text(code(repository, "docs/adding-a-method.md", "class FedAvgM"))
    about = tmp_path / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fedloom.methods]\nfedavgm = fedavgm\n")
    monkeypatch.syspath_prepend(tmp_path)
    kind: type[Method] = registry.get("fedavgm")
    return kind


def test_the_method_with_a_state_of_the_server_keeps_the_contract_as_the_page_asks(
    repository: Path, momentum: type[Method]
) -> None:
    exec(code(repository, "docs/adding-a-method.md", "check_method("), {})


def test_what_only_the_server_has_goes_down_to_nobody(momentum: type[Method]) -> None:
    problem = problem_for("forecast")
    federation = Federation(momentum(model=problem.model()), problem.task(PROTOCOL), PROTOCOL, 0)
    state = federation.start()
    kept = {name for name in state.server if name.startswith("momentum.")}
    everyone = Clients(torch.arange(CLIENTS), torch.ones(CLIENTS), state.params, state.buffers, {})
    received = federation.method.download(state.server, everyone)
    assert kept
    assert set(received) == set(state.server) - kept
    federation.run(state)
    assert all(state.server[name].abs().sum() > 0 for name in kept)


@pytest.mark.parametrize(("page", "method"), [("README.md", "median"), ("docs/adding-a-method.md", "fedavgm")])
def test_the_narrow_command_selects_every_check_of_one_method(repository: Path, page: str, method: str) -> None:
    (command,) = re.findall(r"^\.venv/bin/python (-m pytest .*)$", (repository / page).read_text(), re.MULTILINE)
    arguments = shlex.split(command.replace(f"[{method}-", "[fedavg-"))
    assert arguments[-1] == "[fedavg-"
    done = subprocess.run(
        [sys.executable, *arguments, "--collect-only", "-q"], cwd=repository, capture_output=True, text=True, check=True
    )
    selected = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(selected) == len(CHECKS)


@pytest.mark.parametrize(
    "columns", [numbers.COLUMNS, costs.COSTS, claims.COLUMNS, contradictions.TIDY, transfer.COLUMNS]
)
def test_every_column_of_a_table_is_explained(repository: Path, columns: list[str]) -> None:
    text = (repository / "docs" / "artifacts.md").read_text().partition("\n## Tables\n")[2]
    assert [name for name in columns if f"`{name}`" not in text] == []
