"""Windows to look at: hidden stretches as they were filled in, held-out sets as they were foretold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedloom.report.captions import steps, told
from fedloom.report.figure import WIDTH, Figure, Look, legend, looks, tiles
from fedloom.report.names import Run
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT, LEAST_HEIGHT = 1.75, 0.5, 2.4
COLUMNS = 2
PAST = 96  # points of the past that are drawn beside a forecast
TRUTH: Look = {"color": "0.55", "lw": 1, "ls": "-"}
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Backdrop:
    """What is drawn behind the methods: its handles by label, the true values, and at which points methods answer."""

    handles: dict[str, Artist]
    truth: Any
    asked: Any


def filled_windows(shown: Shown) -> Figure:
    """Draw a test window of every domain with half of its tokens hidden, as methods fill them in."""
    drawn = _drawn(shown, "fill", _hidden, str, "point of the window")
    notes = told(
        shown,
        "A test window of each domain (of its first client; the fully observed one of lowest key), scaled by the "
        "series' training part; grey: hidden tokens, half of them, the same for all methods; the first seed's "
        "selected weights.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def foretold_windows(shown: Shown) -> Figure:
    """Draw a test window of every held-out set as methods foretell it without having learned from the set."""
    drawn = _drawn(shown, "forecast", _future, shown.names.word, "step from the origin")
    notes = told(
        shown,
        "The middle test window of each held-out set's last channel at its shortest horizon, scaled by the training "
        f"part, foretold without having learned from the set; the latest {PAST} points of the look-back are drawn; the "
        "first seed's selected weights.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _hidden(ax: Axes, arrays: Arrays) -> Backdrop:
    """A window, its hidden stretches, and lines across these."""
    x = np.where(arrays["seen"] > 0, arrays["x"], np.nan)
    hidden = arrays["hidden"] > 0
    at = np.arange(len(x))
    handles: dict[str, Artist] = {}
    (handles["truth"],) = ax.plot(at, x, **TRUTH)
    for begin, end in _stretches(hidden):
        handles["hidden"] = ax.axvspan(begin - 0.5, end - 0.5, color="0.9", lw=0)
    line = np.where(hidden, arrays["line"], np.nan)
    (handles["linear interpolation"],) = ax.plot(at, line, color="0.35", ls=":", lw=1)
    return Backdrop(handles, x, hidden)


def _future(ax: Axes, arrays: Arrays) -> Backdrop:
    """The latest past and what followed."""
    past, truth = arrays["past"][-PAST:], arrays["truth"]
    ax.plot(np.arange(-len(past), 0), past, **TRUTH)
    (line,) = ax.plot(np.arange(len(truth)), truth, **TRUTH)
    ax.axvline(-0.5, color="0.7", lw=0.8)
    return Backdrop({"truth": line}, np.concatenate([past, truth]), np.ones(len(truth), dtype=bool))


def _drawn(
    shown: Shown, kind: str, draw: Callable[[Axes, Arrays], Backdrop], titled: Callable[[str], str], along: str
) -> matplotlib.figure.Figure:
    """Draw a panel for every section below ``kind`` (``titled`` in print), the methods' answers over its backdrop."""
    styles = looks(shown.compared)
    found = _arrays(shown, kind, list(styles))
    panels = [(dataset, section) for dataset, runs in found.items() for section in _sections(runs)]
    drawn, axes = tiles(len(panels), COLUMNS, ROW_HEIGHT, LEGEND_HEIGHT)
    drawn.set_size_inches(WIDTH, max(LEAST_HEIGHT, drawn.get_figheight()))
    handles: dict[str, Artist] = {}
    for ax, (dataset, section) in zip(axes, panels, strict=False):
        runs = {run: _below(arrays, section) for run, arrays in found[dataset].items()}
        behind = draw(ax, next(iter(runs.values())))
        handles |= behind.handles
        for run, arrays in runs.items():
            answer = np.where(behind.asked, arrays["found"], np.nan)
            (handles[shown.names.run(run)],) = ax.plot(np.arange(len(answer)), answer, **styles[run])
        title = titled(section)
        ax.set_title(f"{title}, {shown.label(dataset)}" if len(found) > 1 else title)
        _frame(ax, behind.truth)
    for ax in axes[: len(panels)][-COLUMNS:]:
        ax.set_xlabel(along)
    legend(drawn, handles, 6)
    return drawn


def _arrays(shown: Shown, kind: str, runs: list[Run]) -> dict[str, dict[Run, Arrays]]:
    """Arrays below ``kind`` of the first seed of each run, by dataset and run; those without any are left out."""
    found: dict[str, dict[Run, Arrays]] = {}
    for dataset in shown.datasets:
        for run in runs:
            folders = list(shown.folders_of(dataset, run).values())
            below = _below(shown.diagnostics(folders[0]), kind) if folders else {}
            if below:
                found.setdefault(dataset, {})[run] = below
    return found


def _below(arrays: Arrays, part: str) -> Arrays:
    return {key.removeprefix(f"{part}/"): value for key, value in arrays.items() if key.startswith(f"{part}/")}


def _sections(runs: dict[Run, Arrays]) -> list[str]:
    first = next(iter(runs.values()))
    return list(dict.fromkeys(key.rpartition("/")[0] for key in first))


def _frame(ax: Axes, x: Any) -> None:
    """Frame what happened: a filling that runs away leaves the picture, not the truth in a corner."""
    low, high = np.nanmin(x), np.nanmax(x)
    margin = 0.35 * (high - low) or 1.0
    ax.set_ylim(low - margin, high + margin)
    ax.margins(x=0.01)


def _stretches(hidden: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], hidden, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
