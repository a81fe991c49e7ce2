"""What the package imports is what pyproject.toml declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path


def imported(folder: Path) -> set[str]:
    """Top-level names that the Python files below ``folder`` import."""
    names = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"fedloom"}


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_of_the_package_is_declared_and_locked(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    declared = {normal(re.split(r"[<>=]", line)[0]) for line in project["dependencies"]}
    locked = {normal(line.split("==")[0]) for line in (repository / "requirements.lock").read_text().splitlines()}
    providers = packages_distributions()
    for name in imported(repository / "src") | imported(repository / "scripts"):
        distributions = {normal(each) for each in providers.get(name, [name])}
        assert distributions & declared, f"{name} is imported but not declared"
    assert declared <= locked
