"""Dependencies point one way, and what trains needs nothing but tensors and tables: the contracts of pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

TRAINS = {"torch", "numpy", "scipy", "pandas", "pyarrow", "safetensors"}


@pytest.fixture
def project(repository: Path) -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((repository / "pyproject.toml").read_text())


def forbidden_where_trained(project: dict[str, Any]) -> list[str]:
    """Top-level modules that code which trains must not import."""
    contracts = {contract["id"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    found: list[str] = contracts["bare"]["forbidden_modules"]
    return found


def contracts(repository: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """What import-linter says, in a process of its own: it sets up logging anew, which closes streams of others."""
    program = f"import sys; {before}from importlinter.cli import lint_imports; "
    program += f"sys.exit(lint_imports(config_filename={str(repository / 'pyproject.toml')!r}, no_cache=True))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_contracts_hold(repository: Path) -> None:
    found = contracts(repository)
    assert found.returncode == 0, found.stdout


def test_an_import_that_points_up_breaks_them(repository: Path, tmp_path: Path) -> None:
    package = tmp_path / "fedloom"
    folders = "library report config check evaluation methods models federation partition data"
    for name in folders.split():
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    for name in ("__init__", "artifacts", "progress", "errors"):
        (package / f"{name}.py").touch()

    def broken() -> list[str]:
        output = contracts(repository, f"sys.path.insert(0, {str(tmp_path)!r}); ").stdout
        return re.findall(r"^(\w+).* BROKEN$", output, re.MULTILINE)

    assert broken() == []
    (package / "federation" / "__init__.py").write_text("import fedloom.data, fedloom.methods\n")
    (package / "data" / "__init__.py").write_text("import snakemake\n")
    assert broken() == ["Imports", "Snakemake", "Training"]
    (package / "federation" / "__init__.py").write_text("import fedloom.config\n")
    (package / "data" / "__init__.py").write_text("")
    assert broken() == ["Imports"]


def test_every_dependency_is_either_what_trains_or_forbidden_there(project: dict[str, Any]) -> None:
    declared = {re.split(r"[<>=]", line)[0].lower() for line in project["project"]["dependencies"]}
    providers = packages_distributions()
    named = TRAINS | set(forbidden_where_trained(project))
    assert {name.lower() for module in named for name in providers[module]} >= declared


def test_training_loads_nothing_that_a_bare_gpu_machine_lacks(project: dict[str, Any]) -> None:
    program = (
        f"import pkgutil, importlib, sys, {', '.join(sorted(TRAINS))}\n"
        "before = set(sys.modules)\n"  # torch looks for a progress bar
        "import fedloom.federation, fedloom.methods, fedloom.models, fedloom.check\n"
        "for package in (fedloom.federation, fedloom.methods, fedloom.models, fedloom.check):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        f"print((set(sys.modules) - before) & {set(forbidden_where_trained(project))!r} or 'nothing')\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "nothing"
