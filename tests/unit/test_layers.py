"""Dependencies point one way, and what trains needs nothing but tensors and tables."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedloom

ROOT = Path(fedloom.__file__).parent
# A layer may import itself and those below it; `check`, `errors`, `artifacts` and `progress` stand beside them.
LAYERS = [{"report"}, {"evaluation"}, {"methods"}, {"federation", "models"}, {"partition"}, {"data"}]
BESIDE = {"check", "errors", "artifacts", "progress", "config"}
HEAVY = ("pooch", "pandera", "sklearn", "h3", "h5py", "pydantic", "snakemake", "matplotlib", "statsmodels")


def layer_of(name: str) -> int | None:
    return next((depth for depth, names in enumerate(LAYERS) if name in names), None)


def imports(path: Path) -> set[str]:
    """Subpackages of ours that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedloom."):
            found.add(node.module.split(".")[1])
    return found


@pytest.mark.parametrize("package", [name for names in LAYERS for name in sorted(names)])
def test_a_layer_imports_nothing_above_it(package: str) -> None:
    own = layer_of(package)
    for path in (ROOT / package).rglob("*.py"):
        for name in imports(path) - BESIDE:
            depth = layer_of(name)
            assert depth in range(own, len(LAYERS)), f"{path.relative_to(ROOT)} imports {name}"


def test_config_is_read_at_the_edge_alone() -> None:
    for package in (name for names in LAYERS for name in names):
        for path in (ROOT / package).rglob("*.py"):
            assert "config" not in imports(path), path.relative_to(ROOT)


def test_training_loads_nothing_that_a_bare_gpu_machine_lacks() -> None:
    program = (
        "import pkgutil, importlib, sys\n"
        "import fedloom.federation, fedloom.methods, fedloom.models, fedloom.check\n"
        "for package in (fedloom.federation, fedloom.methods, fedloom.models, fedloom.check):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
