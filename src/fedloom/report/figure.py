"""A figure as it is printed: one width and style, each method in its look, the caption inside PDF and PNG."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import matplotlib as mpl
import matplotlib.figure
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from PIL import Image

from fedloom.artifacts import atomic
from fedloom.report.layout import ending, title

STYLE = Path(__file__).with_name("fedloom.mplstyle")
WIDTH = 7.2  # inches: the text width of a paper in one column
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MEGABYTE = 1e6
TITLES: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")
LETTER = 0.6  # width of a letter by the size of its font, on average

Look = dict[str, Any]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Figure:
    """A drawn figure, ``caption`` that says what is shown and ``notes`` how to read it."""

    drawn: matplotlib.figure.Figure
    caption: str
    notes: str


@contextmanager
def style() -> Iterator[None]:
    """Draw in the project's style, without a display."""
    with mpl.rc_context():
        plt.switch_backend("agg")
        plt.style.use(["default", STYLE])
        yield


def grid(rows: int, columns: int, row_height: float, below: float = 0.0, **shared: Any) -> tuple[Any, Any]:
    """Return a figure of the project's width and its axes [rows, columns]; ``below`` is the height of its legend."""
    size = (WIDTH, row_height * rows + below)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, **shared)


def tiles(count: int, across: int, row_height: float, below: float = 0.0, **shared: Any) -> tuple[Any, list[Axes]]:
    """Return a figure of at least one panel, at most ``across`` beside each other, and its panels one by one."""
    columns = min(across, max(1, count))
    drawn, axes = grid(math.ceil(max(1, count) / columns), columns, row_height, below, **shared)
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    return drawn, list(axes.flat)


def looks(names: Iterable[K]) -> dict[K, Look]:
    """Return a colour and line style for each name; lines that come round to the same ones get a marker."""
    cycle = list(plt.rcParams["axes.prop_cycle"])
    markers = ("", *MARKERS)
    return {
        name: {**cycle[i % len(cycle)], "marker": markers[i // len(cycle) % len(markers)]}
        for i, name in enumerate(dict.fromkeys(names))
    }


def dots(names: Iterable[K]) -> dict[K, Look]:
    """Return a colour and marker for each name: the colours are those of ``looks``."""
    return {
        name: {"color": look["color"], "marker": MARKERS[i % len(MARKERS)], "ls": "none"}
        for i, (name, look) in enumerate(looks(names).items())
    }


def banded(ax: Axes, x: Any, over_seeds: pd.DataFrame, look: Look) -> Line2D:
    """Draw a line through the means and a band from least to largest (columns mean, least, largest)."""
    (line,) = ax.plot(x, over_seeds["mean"], **look)
    ax.fill_between(x, over_seeds["least"], over_seeds["largest"], color=look["color"], alpha=0.15, lw=0)
    return line


def legend(
    drawn: matplotlib.figure.Figure, handles: Mapping[str, Any], most: int, place: str = "lower center", **look: Any
) -> None:
    """Name what is drawn outside the panels, at most ``most`` beside each other."""
    if handles:
        columns = min(most, len(handles))
        where: Any = f"outside {place}"
        drawn.legend(list(handles.values()), list(handles), loc=where, ncols=columns, **look)


def _wrap_labels(drawn: matplotlib.figure.Figure) -> None:
    """Break titles and labels of panels into lines that are no longer than their panel, such as long names of data."""
    drawn.draw_without_rendering()
    scale = drawn.dpi / 72
    for ax in drawn.axes:
        box = ax.get_window_extent()
        for place in TITLES:
            ax.set_title(_broken(ax.get_title(place), box.width, float(ax.title.get_fontsize()) * scale), loc=place)
        for label, room in ((ax.xaxis.label, box.width), (ax.yaxis.label, box.height)):
            label.set_text(_broken(label.get_text(), room, float(label.get_fontsize()) * scale))


def _broken(text: str, room: float, size: float) -> str:
    """``text`` in lines that ``room`` holds at a font of that ``size``; lines that it has already stay."""
    letters = max(8, int(room / (LETTER * size)))
    return text if "\n" in text else textwrap.fill(text, letters, break_long_words=False)


def write_figure(figure: Figure, stem: Path) -> None:
    """Write the figure to ``stem`` with the endings pdf and png and close it; drawn again, the files are the same."""
    _wrap_labels(figure.drawn)
    heading = f"{title(stem.name)}: {figure.caption}"
    with atomic(ending(stem, "pdf")) as temporary:
        about = {"Title": heading, "Subject": figure.notes, "CreationDate": None}
        figure.drawn.savefig(temporary, format="pdf", metadata=about)
    with atomic(ending(stem, "png")) as temporary:
        about = {"Title": heading, "Description": figure.notes, "Software": None}
        figure.drawn.savefig(temporary, format="png", metadata=about)
    plt.close(figure.drawn)


def read_caption(png: Path) -> tuple[str, str]:
    """Return title and notes of a figure that ``write_figure`` wrote."""
    with Image.open(png) as image:
        image.load()
        text: dict[str, str] = getattr(image, "text", {})
    return text.get("Title", png.stem), text.get("Description", "")
