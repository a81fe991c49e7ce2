"""The letters that tensors' names end in are those of the legend in the package's docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fedloom

LEGEND = set(re.findall(r"^(\w) {5}\w", str(fedloom.__doc__), re.MULTILINE))
SUFFIX = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*_([A-Z][A-Za-z0-9]*)")


def names(tree: ast.AST) -> Iterator[str]:
    """Names of variables, arguments and attributes."""
    for node in ast.walk(tree):
        for kind, field in ((ast.Name, "id"), (ast.arg, "arg"), (ast.Attribute, "attr")):
            if isinstance(node, kind):
                yield getattr(node, field)


def test_every_letter_of_a_shape_stands_in_the_legend_and_every_letter_of_it_is_used() -> None:
    used: dict[str, str] = {}
    for file in Path(fedloom.__file__).parent.rglob("*.py"):
        for name in names(ast.parse(file.read_text())):
            found = SUFFIX.fullmatch(name)
            used |= {letter: f"{file.name}: {name}" for letter in (found[1] if found else "") if letter.isalpha()}
    assert {letter: where for letter, where in used.items() if letter not in LEGEND} == {}
    assert used.keys() >= LEGEND
