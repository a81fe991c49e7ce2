"""How the foremost method's masked error moves with its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist

from fedloom.evaluation.schema import IDENTITY
from fedloom.report.captions import steps, told
from fedloom.report.figure import Figure, grid, legend, looks
from fedloom.report.series.numbers import masked_errors
from fedloom.report.shown import Shown

HEIGHT = 2.9


@dataclass(frozen=True)
class SensitivityOptions:
    """``parameters`` of the foremost method and what they are called in print, a panel each.

    ``forms``: for a parameter that does nothing in the base, another parameter and its values in which it does.
    """

    parameters: dict[str, str]
    forms: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)


def sensitivity(shown: Shown, options: SensitivityOptions) -> Figure:
    """Draw the masked error by each parameter, and for each form in which the parameter does anything."""
    frame = _errors_by_parameters(shown)
    drawn, axes = grid(1, len(options.parameters), HEIGHT, sharey=True)
    handles: dict[str, Artist] = {}
    for ax, (name, label) in zip(axes[0], options.parameters.items(), strict=True):
        ticks = sorted(set(frame[name]))
        forms = _forms(options.forms.get(name, {}))
        for (form, given), look in zip(forms.items(), looks(forms).values(), strict=True):
            means = _along(frame, name, given).groupby(name)["error"].agg(["mean", "min", "max"])
            if means.empty:
                continue
            places = np.array([ticks.index(value) for value in means.index])
            (line,) = ax.plot(places, means["mean"], **{**look, "marker": "o", "ms": 4})
            ax.vlines(places, means["min"], means["max"], color=look["color"], lw=1)
            if form:
                handles[form] = line
        ax.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        ax.set_xlabel(label)
        ax.set_xlim(-0.4, max(1, len(ticks) - 1) + 0.4)
    axes[0, 0].set_ylabel("masked MSE, clients")
    legend(drawn, handles, len(handles), "lower right")
    notes = told(
        shown,
        "Masked reconstruction of the clients' test windows (mean over five rates). In each panel one parameter moves "
        "and all others are the base's. Bars: least to largest over seeds.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _forms(asked: dict[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
    """Name in print -> parameters of each form; one without a name that is the base's where none was asked for."""
    found = {f"{value} {name}": {name: value} for name, values in asked.items() for value in values}
    return found or {"": {}}


def _errors_by_parameters(shown: Shown) -> pd.DataFrame:
    """One row a run of the foremost method: its parameters, ``variant`` and ``error``."""
    found = masked_errors(shown)
    error = found[found["unit"] == "mean"].set_index(IDENTITY)["value"]
    rows = []
    for run in shown.runs[shown.runs["method"] == shown.foremost].itertuples():
        params = shown.record(run.folder)["spec"]["params"]
        value = error[run.dataset, run.method, run.variant, run.seed]
        rows.append(params | {"variant": run.variant, "error": value})
    return pd.DataFrame(rows)


def _along(frame: pd.DataFrame, name: str, form: dict[str, Any]) -> pd.DataFrame:
    """Runs of a form whose parameters other than ``name`` are those of the base."""
    base = frame[frame["variant"] == "base"]
    if base.empty:
        return base
    fixed = [column for column in frame.columns if column not in (name, "variant", "error", *form)]
    same = (frame[fixed].astype(str) == base[fixed].astype(str).iloc[0]).all(axis=1)
    for parameter, value in form.items():
        same &= frame[parameter] == value
    return frame[same & frame["error"].notna()]
