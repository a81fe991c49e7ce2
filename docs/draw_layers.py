"""Draws docs/layers.svg: the parts of the package from top to bottom, and which imports which, as the code has it.

python docs/draw_layers.py
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import grimp
import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

PACKAGE = "fedloom"
PICTURE = Path(__file__).with_name("layers.svg")
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
STEP, BOX, TALL = 1.0, 1.7, 0.56  # how far a part stands right of the one above, width and height of its box
PORT = 0.3  # where in a box the way down begins
BLUE = "#34587a"
ARROW = {"arrowstyle": "-|>", "color": "0.6", "shrinkA": 0, "shrinkB": 0}


def parts() -> dict[str, Any]:
    """Parts of the package from top to bottom, as pyproject.toml lays them: what each is, its folders, its imports."""
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found = {}
    for name in (part.strip() for layer in layers for part in layer.split("|")):
        package = f"{PACKAGE}.{name}"
        folders = [child for child in graph.find_children(package) if graph.find_children(child)]
        modules = {package, *graph.find_descendants(package)}
        imported = {other for module in modules for other in graph.find_modules_directly_imported_by(module)}
        others = {other.split(".")[1] for other in imported if other != PACKAGE} - {name}
        found[name] = {
            "is": str(importlib.import_module(package).__doc__).partition("\n")[0].replace("`", ""),
            "folders": sorted(child.rpartition(".")[2] for child in folders),
            "imports": sorted(others),
        }
    return found


def draw(described: dict[str, Any]) -> Figure:
    """The picture: down from a part, then right into what it imports; a dot where the way turns."""
    names = list(described)
    figure = Figure(figsize=(11, 0.62 * len(names) + 0.3))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for row, name in enumerate(names):
        x, part = row * STEP, described[name]
        above = [names.index(other) * STEP + PORT for other in names if name in described[other]["imports"]]
        below = [names.index(other) for other in part["imports"]]
        if below:
            axes.plot([x + PORT] * 2, [-row, -max(below)], color="0.6", linewidth=1, zorder=1)
        if above:
            axes.annotate("", (x, -row), (above[0], -row), arrowprops=ARROW)
            axes.plot(above, [-row] * len(above), "o", color="0.35", markersize=4)
        axes.add_patch(Rectangle((x, -row - TALL / 2), BOX, TALL, facecolor="#dde8f3", edgecolor=BLUE, zorder=3))
        axes.text(x + BOX / 2, -row, name, ha="center", va="center", fontsize=10, zorder=4)
        axes.text(x + BOX + 0.15, -row + 0.13, part["is"], va="center", fontsize=7)
        axes.text(x + BOX + 0.15, -row - 0.15, ", ".join(part["folders"]), va="center", fontsize=7, color=BLUE)
    axes.set(xlim=(-0.1, len(names) * STEP + 7.5), ylim=(-len(names) + 0.4, 0.6))
    return figure


def recorded(picture: Path) -> dict[str, Any]:
    """What ``parts`` was when a picture was drawn."""
    text = picture.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.partition("<dc:description>")[2].partition("</dc:description>")[0])
    return found


if __name__ == "__main__":
    described = parts()
    with mpl.rc_context({"svg.hashsalt": PACKAGE, "svg.fonttype": "none"}):
        draw(described).savefig(PICTURE, metadata={"Date": None, "Description": json.dumps(described)})
