"""Which planted bias explains where the foremost method gains: the gap of every client regressed on each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedloom.report.captions import steps, told
from fedloom.report.figure import Figure, tiles
from fedloom.report.layout import EMPTY
from fedloom.report.names import Run, run_of
from fedloom.report.series.numbers import masked_errors
from fedloom.report.series.regression import Slope, regress
from fedloom.report.shown import Shown, of_run

Floats = NDArray[np.float64]
ROW_HEIGHT, ACROSS = 2.5, 3
FAR_APART = 4.0
"""Positive values whose largest is more than so many times the least are drawn and regressed in logarithms."""


@dataclass(frozen=True)
class BiasOptions:
    """``against``: the run that the gain is measured against."""

    against: str


def bias(shown: Shown, options: BiasOptions) -> Figure:
    """Draw the gap of each client against each logged bias of generated clients."""
    other = run_of(options.against)
    ours, theirs = shown.names.run(shown.ours), shown.names.run(other)
    dataset = next((d for d in shown.datasets if shown.panels[d].get("bias")), shown.datasets[0])
    gap = gaps(shown, dataset, other)
    logged = pd.DataFrame.from_dict(shown.panels[dataset].get("bias", {}), orient="index").reindex(gap.index)
    numeric = {name: pd.to_numeric(logged[name], errors="coerce") for name in logged}
    # Kinds last: their labels need room below.
    names = sorted(numeric, key=lambda name: bool(numeric[name].isna().any()))
    drawn, axes = tiles(len(names), ACROSS, ROW_HEIGHT, sharey=True)
    if not names:
        axes[0].text(0.5, 0.5, "no bias was planted in these clients", ha="center", transform=axes[0].transAxes)
    said = []
    for ax, name in zip(axes, names, strict=False):
        if numeric[name].notna().all():
            said.append(_draw_numbers(ax, name, numeric[name].to_numpy(float), gap.to_numpy()))
        else:
            said.append(_draw_kinds(ax, name, logged[name].astype(str), gap))
        ax.axhline(0, color="0.6", lw=0.8)
        ax.set_xlabel(_words(name))
    for first in axes[::ACROSS]:
        first.set_ylabel(f"log MSE, {theirs} − {ours}")
    slopes = "; ".join(each for each in said if each) or EMPTY
    notes = told(
        shown,
        f"One point a client of {shown.label(dataset)}: logarithm of {theirs}'s masked error minus that of {ours}'s, "
        f"with the global bias; above 0 {ours} is better. Regression coefficients per standard deviation, each bias "
        f"alone, with 95 % intervals, or means by kind: {slopes}.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def gaps(shown: Shown, dataset: str, other: Run) -> pd.Series:
    """Return, by client, how much smaller our masked error is than the other's, in logarithms; mean over seeds."""
    frame = masked_errors(shown)
    frame = frame[(frame["dataset"] == dataset) & (frame["unit"] != "mean")]
    ours, theirs = (of_run(frame, run).groupby("unit")["value"].mean() for run in (shown.ours, other))
    gap: pd.Series = np.log(theirs) - np.log(ours)
    return gap.dropna()


def per_deviation(x_N: Floats, y_N: Floats) -> Slope | None:
    """Return the least-squares line of y on standardised x; None where x does not move."""
    return regress((x_N - x_N.mean()) / x_N.std(), y_N) if len(set(x_N)) > 1 else None


def _draw_numbers(ax: Axes, name: str, x: Floats, gap: Floats) -> str:
    """Draw a bias that is a number; return its regression coefficient in words, empty where it does not move."""
    logarithmic = bool((x > 0).all()) and x.max() / x.min() > FAR_APART
    u = np.log(x) if logarithmic else x
    ax.plot(x, gap, "o", ms=4)
    found, said = per_deviation(u, gap), ""
    if found is not None:
        order = np.argsort(x)
        line = found.intercept + found.slope * (u - u.mean()) / u.std()
        ax.plot(x[order], line[order], "--", color="0.4", lw=1)
        interval = f"[{found.lo:+.4f}, {found.hi:+.4f}]"
        said = f"{_words(name)}{' (log)' if logarithmic else ''} {found.slope:+.4f} {interval}"
    if logarithmic:
        ax.set_xscale("log")
        ticks = np.geomspace(x.min(), x.max(), 3)
        ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
        ax.minorticks_off()
    return said


def _draw_kinds(ax: Axes, name: str, kind_of: pd.Series, gap: pd.Series) -> str:
    """Draw a bias that is a kind; return the mean gap of each kind in words."""
    kinds = sorted(set(kind_of))
    ax.plot(kind_of.map({kind: i for i, kind in enumerate(kinds)}), gap.to_numpy(), "o", ms=4)
    means = gap.groupby(kind_of).mean()
    ax.hlines([means[k] for k in kinds], np.arange(len(kinds)) - 0.3, np.arange(len(kinds)) + 0.3, color="0.4")
    ax.set_xticks(range(len(kinds)), [_words(kind).replace("-", "-\n") for kind in kinds], fontsize="small")
    ax.set_xlim(-0.6, len(kinds) - 0.4)
    return f"{_words(name)}: " + ", ".join(f"{_words(k)} {means[k]:+.4f}" for k in kinds)


def _words(name: str) -> str:
    return str(name).replace("_", " ")
