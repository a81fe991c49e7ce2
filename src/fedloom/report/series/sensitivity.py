"""How FeDaL's masked error moves with its parameters."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fedloom.evaluation.schema import IDENTITY
from fedloom.report.curves import looks
from fedloom.report.figure import Figure
from fedloom.report.series.cells import masked_errors, protocol_facts
from fedloom.report.shown import Shown

WIDTH, HEIGHT = 7.2, 2.9
PARAMETERS = {
    "align_weight": "λ (alignment)",
    "fusion": "α (fusion)",
    "core_rows": "core-set windows",
    "beta": "β (correction)",
}
"""Names of FeDaL's parameters -> what they are called in print."""

METHOD = "fedal"
FORMS = ("damped", "feddyn")


def sensitivity(shown: Shown) -> Figure:
    """Draw FeDaL's masked error by λ, α and core-set size, and by β in the two forms in which it does anything."""
    frame = _errors_by_parameters(shown)
    drawn, axes = plt.subplots(1, len(PARAMETERS), figsize=(WIDTH, HEIGHT), squeeze=False, sharey=True)
    handles: dict[str, Any] = {}
    for ax, name in zip(axes[0], PARAMETERS, strict=True):
        # The printed correction does not depend on beta: it cancels.
        forms = FORMS if name == "beta" else _base(frame)["correction"].tolist()[:1]
        styles = looks(len(forms))
        for form, look in zip(forms, styles, strict=True):
            some = _along(frame, name, form)
            if some.empty:
                continue
            means = some.groupby(name)["error"].agg(["mean", "min", "max"])
            positions = {value: i for i, value in enumerate(sorted(set(frame[name])))}
            places = np.array([positions[value] for value in means.index])
            (line,) = ax.plot(places, means["mean"], **{**look, "marker": "o", "ms": 4})
            ax.vlines(places, means["min"], means["max"], color=look["color"], lw=1)
            if name == "beta":
                handles[f"{form} correction"] = line
        ticks = sorted(set(frame[name]))
        ax.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        ax.set_xlabel(PARAMETERS[name])
        ax.set_xlim(-0.4, max(1, len(ticks) - 1) + 0.4)
    axes[0, 0].set_ylabel("masked MSE, clients")
    if handles:
        drawn.legend(list(handles.values()), list(handles), loc="outside lower right", ncols=len(handles))
    notes = (
        "Masked reconstruction of the clients' test windows (mean over five rates). In each panel one parameter moves "
        "and all others are the base's; β in the two forms of the correction that depend on it: in the printed one it "
        f"cancels. Bars: least to largest over seeds. {protocol_facts(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def _errors_by_parameters(shown: Shown) -> pd.DataFrame:
    found = masked_errors(shown)
    error = found[found["unit"] == "mean"].set_index(IDENTITY)["value"]
    rows = []
    for run in shown.runs[shown.runs["method"] == METHOD].itertuples():
        params = shown.record(run.folder)["spec"]["params"]
        value = error[run.dataset, run.method, run.variant, run.seed]
        rows.append(params | {"variant": run.variant, "error": value})
    return pd.DataFrame(rows)


def _base(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["variant"] == "base"]


def _along(frame: pd.DataFrame, name: str, form: str) -> pd.DataFrame:
    """Runs of a form of the correction whose other parameters are those of the base."""
    base = _base(frame)
    if base.empty:
        return base
    fixed = [c for c in frame.columns if c not in (name, "variant", "error", "correction")]
    same = (frame[fixed].astype(str) == base[fixed].astype(str).iloc[0]).all(axis=1)
    return frame[same & (frame["correction"] == form) & frame["error"].notna()]
