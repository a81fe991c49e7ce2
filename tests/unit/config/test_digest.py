"""The code digest moves with what a step computes, and with nothing else."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedloom.config.digest import closure, code_digest
from fedloom.methods import registry as methods
from fedloom.models import registry as models


@pytest.fixture
def train(repository: Path) -> Path:
    """The script of the training step."""
    return repository / "scripts" / "train.py"


def test_training_code_is_the_script_the_method_its_model_and_what_they_import(train: Path) -> None:
    covered = set(closure(train, (methods.get("fedavg"), models.get("forecaster"))))
    assert {"train.py", "fedloom.methods.fedavg", "fedloom.models.forecaster", "fedloom.federation.rounds"} <= covered


def test_training_code_holds_no_other_method_no_registry_no_config_and_nothing_of_the_report(train: Path) -> None:
    covered = set(closure(train, (methods.get("fedavg"), models.get("forecaster"))))
    strangers = {f"fedloom.methods.{name}" for name in methods.names()} - {"fedloom.methods.fedavg"}
    assert not covered & strangers
    for outside in ("fedloom.methods.registry", "fedloom.config.", "fedloom.evaluation.", "fedloom.report."):
        assert not [name for name in covered if name.startswith(outside)]


def test_different_methods_have_different_digests(train: Path) -> None:
    names = methods.names()
    assert len({code_digest(train, (methods.get(name),)) for name in names}) == len(names)


METHOD = '''
"""A method."""
from fedloom.methods.fedavg import FedAvg

class Mine(FedAvg):
    name = "mine"
    {body}
'''


def digest_of(file: Path, train: Path, body: str) -> str:
    """Digest of training with the class ``Mine`` of a file outside the package that has this ``body``."""
    file.write_text(METHOD.format(body=body))
    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mine"] = module
    spec.loader.exec_module(module)
    return code_digest(train, (module.Mine,))


def test_a_comment_a_docstring_or_a_new_line_changes_nothing_and_a_formula_does(tmp_path: Path, train: Path) -> None:
    file = tmp_path / "mine.py"
    formula = digest_of(file, train, "def f(self): return 1 + 2")
    assert digest_of(file, train, "# why\n    def f(self):\n        '''What.'''\n        return 1 + 2") == formula
    assert digest_of(file, train, "'''The class.'''\n\n    def f(self): return (1 + 2)") == formula
    assert digest_of(file, train, "def f(self): return 1 + 3") != formula


def test_a_file_beside_a_module_and_named_in_it_counts(tmp_path: Path, train: Path) -> None:
    (tmp_path / "table.csv").write_text("1")
    (tmp_path / "other.csv").write_text("1")
    first = digest_of(tmp_path / "mine.py", train, "table = 'table.csv'")
    (tmp_path / "other.csv").write_text("2")
    assert digest_of(tmp_path / "mine.py", train, "table = 'table.csv'") == first
    (tmp_path / "table.csv").write_text("2")
    assert digest_of(tmp_path / "mine.py", train, "table = 'table.csv'") != first


def test_figures_have_their_style_and_the_page_has_its_own(repository: Path) -> None:
    assert "fedloom.report.fedloom.mplstyle" in closure(repository / "scripts" / "figure.py")
    assert "fedloom.report.page.css" in closure(repository / "scripts" / "page.py")


def test_a_method_from_outside_brings_what_it_imports(tmp_path: Path, train: Path) -> None:
    digest_of(tmp_path / "mine.py", train, "pass")
    covered = closure(train, (sys.modules["mine"].Mine,))
    assert {"mine.py", "fedloom.methods.fedavg"} <= set(covered)


def test_the_digest_does_not_depend_on_where_the_project_lies(tmp_path: Path, repository: Path, train: Path) -> None:
    shutil.copytree(repository / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(repository / "scripts", tmp_path / "scripts")
    program = (
        "from pathlib import Path; from fedloom.config.digest import code_digest; "
        "from fedloom.methods import registry; print(code_digest(Path('scripts/train.py'), (registry.get('atlas'),)))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert elsewhere.stdout.strip() == code_digest(train, (methods.get("atlas"),))
