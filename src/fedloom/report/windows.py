"""Windows to look at: hidden stretches as they were filled in, held-out sets as they were foretold."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist

from fedloom.report.curves import looks
from fedloom.report.figure import Figure
from fedloom.report.series import label, names, protocol_facts, target_label
from fedloom.report.shown import Shown

WIDTH, ROW_HEIGHT, LEGEND_HEIGHT = 7.2, 1.75, 0.5
SHOWN_METHODS = ("fedal", "fedavg", "ffts")
PAST = 96  # points of the past that are drawn beside a forecast


def reconstruction(shown: Shown) -> Figure:
    """Draw a test window of every domain with half of its tokens hidden, as methods fill them in."""
    found = _arrays(shown, "fill")
    keys = [(dataset, domain) for dataset, of in found.items() for domain in _sections(of)]
    drawn, axes = _grid(len(keys))
    handles: dict[str, Artist] = {}
    for ax, (dataset, domain) in zip(axes, keys, strict=False):
        runs = found[dataset]
        first = next(iter(runs.values()))
        x = np.where(first[f"{domain}/seen"] > 0, first[f"{domain}/x"], np.nan)
        hidden = first[f"{domain}/hidden"] > 0
        at = np.arange(len(x))
        (handles["truth"],) = ax.plot(at, x, color="0.55", lw=1, ls="-")
        for begin, end in _stretches(hidden):
            handles["hidden"] = ax.axvspan(begin - 0.5, end - 0.5, color="0.9", lw=0)
        line = np.where(hidden, first[f"{domain}/line"], np.nan)
        (handles["linear interpolation"],) = ax.plot(at, line, color="0.35", ls=":", lw=1)
        for (name, arrays), look in zip(runs.items(), looks(len(runs)), strict=True):
            (handles[label(*name)],) = ax.plot(at, np.where(hidden, arrays[f"{domain}/found"], np.nan), **look)
        several = len(found) > 1
        ax.set_title(f"{domain}, {shown.label(dataset)}" if several else domain)
        _frame(ax, x)
    _legend(drawn, handles)
    notes = (
        "A test window of each domain (of its first client; the fully observed one of lowest key), scaled by the "
        "series' training part; grey: hidden tokens, half of them, the same for all methods; the first seed's "
        f"selected weights. {protocol_facts(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def forecasts(shown: Shown) -> Figure:
    """Draw a test window of every held-out set as methods foretell it without having learned from the set."""
    found = _arrays(shown, "forecast")
    keys = [(dataset, target) for dataset, of in found.items() for target in _sections(of)]
    drawn, axes = _grid(len(keys))
    handles: dict[str, Artist] = {}
    for ax, (dataset, target) in zip(axes, keys, strict=False):
        runs = found[dataset]
        first = next(iter(runs.values()))
        past, truth = first[f"{target}/past"][-PAST:], first[f"{target}/truth"]
        (handles["truth"],) = ax.plot(np.arange(-len(past), 0), past, color="0.55", lw=1, ls="-")
        ax.plot(np.arange(len(truth)), truth, color="0.55", lw=1, ls="-")
        ax.axvline(-0.5, color="0.7", lw=0.8)
        for (name, arrays), look in zip(runs.items(), looks(len(runs)), strict=True):
            (handles[label(*name)],) = ax.plot(np.arange(len(truth)), arrays[f"{target}/found"], **look)
        several = len(found) > 1
        title = target_label(target)
        ax.set_title(f"{title}, from {shown.label(dataset)}" if several else title)
        _frame(ax, np.concatenate([past, truth]))
    _legend(drawn, handles)
    notes = (
        "The middle test window of each held-out set's last channel at its shortest horizon, scaled by the training "
        "part, foretold without having learned from the set; the latest 96 points of the look-back are drawn; the "
        f"first seed's selected weights. {protocol_facts(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def _arrays(shown: Shown, kind: str) -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """Arrays below ``kind`` of the first seed of each method, by dataset and method; those without any are left out."""
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    chosen = [n for n in names(shown) if n[0] in SHOWN_METHODS and n[1] == "base"]
    for dataset in shown.datasets:
        for name in chosen:
            runs = shown.runs[shown.runs["dataset"] == dataset]
            runs = runs[(runs["method"] == name[0]) & (runs["variant"] == name[1])]
            if runs.empty:
                continue
            arrays = shown.diagnostics(runs["folder"].iloc[0])
            below = {k.removeprefix(f"{kind}/"): v for k, v in arrays.items() if k.startswith(f"{kind}/")}
            if below:
                found.setdefault(dataset, {})[name] = below
    return found


def _sections(runs: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    first = next(iter(runs.values()))
    return list(dict.fromkeys(key.rpartition("/")[0] for key in first))


def _grid(panels: int) -> tuple[Any, list[Any]]:
    columns = 2 if panels > 1 else 1
    rows = math.ceil(max(1, panels) / columns)
    size = (WIDTH, max(2.4, ROW_HEIGHT * rows + LEGEND_HEIGHT))
    drawn, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for ax in axes.flat[panels:]:
        ax.set_axis_off()
    return drawn, list(axes.flat)


def _frame(ax: Any, x: Any) -> None:
    """Frame what happened: a filling that runs away leaves the picture, not the truth in a corner."""
    low, high = np.nanmin(x), np.nanmax(x)
    margin = 0.35 * (high - low) or 1.0
    ax.set_ylim(low - margin, high + margin)
    ax.margins(x=0.01)


def _stretches(hidden: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], hidden, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _legend(drawn: Any, handles: dict[str, Artist]) -> None:
    drawn.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=min(6, max(1, len(handles))))
