"""Prototypes in two contrasting periods of one client: which weigh, what is read, and what the covariates do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fedloom.errors import InputError
from fedloom.evaluation.forecast.prototypes import PERIOD, by_step, contrasting
from fedloom.report.captions import budget, told
from fedloom.report.figure import WIDTH, Figure, legend
from fedloom.report.forecast.interpretation import Interpreted, interpreted, series_of
from fedloom.report.shown import Shown

HEIGHTS = {"reading": 0.9, "weights": 1.5, "regime": 0.5, "covariates": 1.3}  # inches of a panel
MOST = 6  # covariates in one panel


@dataclass(frozen=True)
class PeriodOptions:
    """``steps`` is the length of a period.

    ``by`` names, for a dataset, the covariate whose mean makes the contrast; where it does not, the reading does.
    """

    steps: int = PERIOD
    by: Mapping[str, str] = field(default_factory=dict)


def periods(shown: Shown, options: PeriodOptions) -> Figure:
    """Draw, for each dataset, reading, prototype weights, true regime and covariates in the two periods of a client."""
    found = {dataset: interpreted(shown, dataset) for dataset in shown.datasets}
    rows = [(dataset, row) for dataset, each in found.items() for row in _rows(each)]
    heights = [HEIGHTS[row] for _, row in rows]
    size = (WIDTH, sum(heights) + 0.9 * len(found))
    drawn, axes = plt.subplots(len(rows), 2, figsize=size, squeeze=False, height_ratios=heights, sharey="row")
    handles: dict[str, Line2D] = {}
    said: list[str] = []
    for dataset, each in found.items():
        panels = {row: axes[i] for i, (of, row) in enumerate(rows) if of == dataset}
        handles |= _draw(shown, dataset, each, options, panels, said)
    legend(drawn, handles, MOST)
    notes = told(
        shown,
        f"Two periods of {options.steps} consecutive steps from the test part of one client, the middle one of all "
        "by its mean reading while training: those with the least (left) and the largest (right) mean of what their "
        "titles name. Weights: of each prototype in the window that ends at a step. Covariates: how many standard "
        "deviations they lie from their mean over the test part.",
        *said,
        budget(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _rows(found: Interpreted) -> list[str]:
    parts = {"reading": True, "weights": True, "regime": found.true_regimes is not None}
    parts["covariates"] = not series_of(found.panel, found.watched[len(found.watched) // 2]).empty
    return [name for name, wanted in parts.items() if wanted]


def _draw(
    shown: Shown, dataset: str, found: Interpreted, options: PeriodOptions, panels: dict[str, Any], said: list[str]
) -> dict[str, Line2D]:
    place = len(found.watched) // 2
    client = found.watched[place]
    reading, covariates = found.panel.values[client], series_of(found.panel, client)
    ends = found.ends[place][found.ends[place] >= 0]
    by = options.by.get(dataset)
    if by is not None and by not in covariates:
        raise InputError(f"{shown.where}: by.{dataset}: expected one of {list(covariates)}, found {by!r}")
    first, last = int(ends.min()), int(ends.max()) + 1
    tested = slice(first, last)
    chosen = contrasting((reading if by is None else covariates[by]).iloc[tested], options.steps)
    if chosen is None:
        raise InputError(
            f"{shown.where}: {dataset}: expected {options.steps} steps known in the test part, found fewer"
        )
    weights_SI = by_step(found.weights[place], found.ends[place], len(reading))
    handles: dict[str, Line2D] = {}
    quantity = "reading" if by is None else shown.names.word(by)
    for side, begin in enumerate(chosen):
        at = slice(first + begin, first + begin + options.steps)
        stamps = reading.index[at]
        _line(panels["reading"][side], stamps, reading.iloc[at])
        what = f"{client}: {'least' if side == 0 else 'largest'} mean {quantity}"
        panels["reading"][side].set_title(f"{shown.label(dataset)}\n{what}")
        image = _weights(panels["weights"][side], stamps, weights_SI[at])
        if "regime" in panels:
            regimes = found.true_regimes
            assert regimes is not None
            panels["regime"][side].step(stamps, regimes[place][at] + 1, where="mid", color="0.2", ls="-", lw=1.2)
            kinds = sorted(set(regimes[place] + 1))
            panels["regime"][side].set(yticks=kinds, ylim=(kinds[0] - 0.5, kinds[-1] + 0.5))
        if "covariates" in panels:
            lines = _covariates(panels["covariates"][side], covariates.iloc[tested], stamps)
            handles |= {shown.names.word(name): line for name, line in lines.items()}
        for row, pair in panels.items():
            _frame(pair[side], stamps, row == list(panels)[-1])
    panels["weights"][0].figure.colorbar(image, ax=list(panels["weights"]), pad=0.01, aspect=12, label="weight")
    panels["reading"][0].set_ylabel(shown.panels[dataset]["unit"])
    panels["weights"][0].set_ylabel("prototype")
    for row, label in (("regime", "regime"), ("covariates", "covariates (sd)")):
        if row in panels:
            panels[row][0].set_ylabel(label)
    said.append(_said(shown, dataset, quantity, [weights_SI[first + b : first + b + options.steps] for b in chosen]))
    return handles


def _said(shown: Shown, dataset: str, quantity: str, weights: list[NDArray[np.float32]]) -> str:
    """How far the mean weights of the two periods lie apart."""
    low, high = (np.nanmean(of_period, axis=0) for of_period in weights)
    cosine = low @ high / (np.linalg.norm(low) * np.linalg.norm(high))
    apart = f"{np.abs(low - high).sum():.2f} apart (L1), their cosine is {cosine:.2f}"
    return f"{shown.label(dataset)}: contrast of the {quantity}; mean weights of the two periods are {apart}."


def _line(ax: Axes, stamps: pd.Index, values: pd.Series) -> None:
    ax.plot(stamps, values, color="black", ls="-", lw=1.2)


def _weights(ax: Axes, stamps: pd.Index, weights_SI: NDArray[np.float32]) -> Any:
    numbers = np.arange(1, weights_SI.shape[1] + 1)
    image = ax.pcolormesh(stamps, numbers, weights_SI.T, cmap="viridis", vmin=0, vmax=1, shading="nearest")
    ax.set_yticks(numbers[:: 1 if len(numbers) <= 10 else 5])
    ax.grid(visible=False)
    return image


def _covariates(ax: Axes, tested: pd.DataFrame, stamps: pd.Index) -> dict[str, Line2D]:
    scaled = (tested - tested.mean()) / tested.std().replace(0, 1)
    moving = scaled.columns[tested.std() > 0][:MOST]
    return {name: ax.plot(stamps, scaled.loc[stamps, name], lw=1.2)[0] for name in moving}


def _frame(ax: Axes, stamps: pd.Index, lowest: bool) -> None:
    ax.set_xlim(stamps[0], stamps[-1])
    ticks = mdates.AutoDateLocator(minticks=2, maxticks=5)
    ax.xaxis.set_major_locator(ticks)
    ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
    ax.tick_params(labelbottom=lowest)
