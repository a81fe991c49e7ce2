"""Who knows whose name: a method is known to its own file alone, and no code asks which family it has before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fedloom
from fedloom.federation.tasks import registry as families
from fedloom.methods import registry as methods

ROOT = Path(fedloom.__file__).parent
METHODS = ROOT / "methods"
DECLARED = ROOT / "config" / "dataset.py"  # where each family says which sections and files its data have


@cache
def modules() -> dict[Path, ast.Module]:
    """The syntax tree of every module of the package."""
    return {file: ast.parse(file.read_text()) for file in sorted(ROOT.rglob("*.py"))}


def place(file: Path, node: ast.expr | ast.stmt) -> str:
    return f"{file.relative_to(ROOT)}:{node.lineno}"


def constants(node: ast.AST) -> Iterator[ast.Constant]:
    """All strings inside a piece of code that are no docstrings."""
    texts = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Expr)}
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in texts:
            yield part


def is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal"


def choices(file: Path) -> set[object]:
    """Words that the parameters of a method's file may have; one of them may happen to be another method's name."""
    literals = [node for node in ast.walk(modules()[file]) if is_literal(node)] if file.parent == METHODS else []
    return {part.value for literal in literals for part in constants(literal)}


def test_a_methods_name_stands_in_its_own_file_alone() -> None:
    names = set(methods.names())
    found = [
        f"{word.value} in {place(file, word)}"
        for file, tree in modules().items()
        for word in constants(tree)
        if word.value.split("/")[0] in names - {file.stem if file.parent == METHODS else ""} - choices(file)
    ]
    assert not found, ", ".join(found)


def imports_of_methods(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Every import from a method's module: the statement, the module, what is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origin = f"{node.module}.{alias.name}" if node.module == "fedloom.methods" else str(node.module)
                if origin.startswith("fedloom.methods."):
                    yield node, origin.rpartition(".")[2], alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("fedloom.methods."):
                    yield node, alias.name.rpartition(".")[2], ""


def test_a_methods_file_is_imported_by_those_alone_that_inherit_from_it() -> None:
    for file, tree in modules().items():
        kinds = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        bases = {base.id for kind in kinds for base in kind.bases if isinstance(base, ast.Name)}
        inherited = {module for _, module, name in imports_of_methods(tree) if name in bases}
        for node, module, _ in imports_of_methods(tree):
            allowed = module == "registry" or (file.parent == METHODS and module in inherited)
            assert allowed, f"{place(file, node)} imports {module}"


def is_family(node: ast.AST) -> bool:
    """Whether an expression is called family: ``family``, ``x.family``, ``x["family"]``."""
    name = getattr(node, "slice", None) or node
    return "family" in (getattr(name, "id", ""), getattr(name, "attr", ""), getattr(name, "value", ""))


def choices_by_family(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Where code compares a family with a name, or keeps something by families' names."""
    names = set(families.names())
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            chosen = any(map(is_family, sides)) and any(part.value in names for s in sides for part in constants(s))
        elif isinstance(node, ast.Match):
            chosen = is_family(node.subject)
        elif isinstance(node, ast.Dict):
            chosen = len({getattr(key, "value", None) for key in node.keys} & names) > 1
        else:
            chosen = is_literal(node) and {part.value for part in constants(node)} == names
        if chosen and isinstance(node, ast.expr | ast.stmt):
            yield node


def test_no_code_chooses_by_a_familys_name() -> None:
    trees = {file: tree for file, tree in modules().items() if file != DECLARED}
    found = [place(file, node) for file, tree in trees.items() for node in choices_by_family(tree)]
    assert not found, ", ".join(found)


@pytest.mark.parametrize(
    "code",
    [
        'x = 1 if family == "forecast" else 2',
        'x = spec["family"] in ("series", "trajectory")',
        'x = {"forecast": 1, "series": 2}[task.name]',
        'Family = Literal["forecast", "series", "trajectory"]',
        "match task.family:\n    case _:\n        pass",
    ],
)
def test_a_choice_by_family_is_seen(code: str) -> None:
    assert list(choices_by_family(ast.parse(code)))
