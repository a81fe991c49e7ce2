"""Writes the graph of the rules into docs/architecture.md, as Snakemake has it for what runs by default.

python docs/draw_rules.py

Of Snakemake's graph those arrows are left out that say no more than others together: where a rule reads what a second
one made, and the second one read a third, no arrow runs from the third to the first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rules: made by docs/draw_rules.py -->", "<!-- end of rules -->"
NODE, EDGE = re.compile(r"^\s*(\w+)\[(\w+)\]$", re.MULTILINE), re.compile(r"^\s*(\w+) --> (\w+)$", re.MULTILINE)
Edges = set[tuple[str, str]]


def graph() -> Edges:
    """From which rule to which files go, at the default settings of config/config.yaml."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    named = dict(NODE.findall(done.stdout))
    return {(named[start], named[end]) for start, end in EDGE.findall(done.stdout)}


def drawn(edges: Edges) -> str:
    """The graph as a block of Mermaid, without arrows that a longer way says too."""
    after = {rule: {end for start, end in edges if start == rule != end} for edge in edges for rule in edge}
    reached: dict[str, set[str]] = {}

    def reach(rule: str) -> set[str]:
        if rule not in reached:
            reached[rule] = after[rule].union(*(reach(end) for end in after[rule]))
        return reached[rule]

    kept = [(a, b) for a, b in sorted(edges) if a == b or not any(b in reach(way) for way in after[a] - {b})]
    return "\n".join(["```mermaid", "flowchart TB", *(f"    {a} --> {b}" for a, b in kept), "```"])


def recorded(page: Path) -> str:
    """The block between the marks of ``page``."""
    return page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{drawn(graph())}\n{END}{after}", encoding="utf-8")
