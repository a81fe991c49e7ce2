"""A figure as it is printed: one style, PDF and PNG without dates, the caption inside both files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.figure
import matplotlib.pyplot as plt
from PIL import Image

from fedloom.artifacts import atomic
from fedloom.report.layout import ending, title

STYLE = Path(__file__).with_name("fedloom.mplstyle")


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


def write_figure(figure: Figure, stem: Path) -> None:
    """Write the figure to ``stem`` with the endings pdf and png and close it; drawn again, the files are the same."""
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
