"""Which planted bias explains where FeDaL gains on FedAvg: the gap of every client regressed on what was planted."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import t as student

from fedloom.report.figure import Figure
from fedloom.report.layout import EMPTY
from fedloom.report.series import protocol_facts
from fedloom.report.shown import Shown

WIDTH, ROW_HEIGHT, ACROSS = 7.2, 2.5, 3
OURS, THEIRS = "fedal", "fedavg"


def gaps(shown: Shown, dataset: str) -> pd.Series:
    """Return, by client, how much smaller FeDaL's masked error is than FedAvg's, in logarithms; mean over seeds."""
    frame = shown.metrics
    wanted = (frame["condition"] == "rate=mean,space=z,task=reconstruction") & (frame["metric"] == "mse")
    wanted &= (frame["dataset"] == dataset) & (frame["selection"] == "selected") & (frame["variant"] == "base")
    wanted &= ~frame["unit"].isin(["mean", "pooled"])
    by_method = frame[wanted].groupby(["method", "unit"])["value"].mean().unstack("method")
    if OURS not in by_method or THEIRS not in by_method:
        return pd.Series(dtype=float)
    gap: pd.Series = np.log(by_method[THEIRS]) - np.log(by_method[OURS])
    return gap.dropna()


def regression(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """Return a least-squares slope of y on standardised x and its 95 % interval; NaN where x does not move."""
    if len(x) < 3 or x.std() == 0:
        return (np.nan,) * 3
    u = (x - x.mean()) / x.std()
    slope = float((u * (y - y.mean())).mean())
    residual = float(((y - y.mean() - slope * u) ** 2).sum()) / (len(x) - 2)
    margin = float(student.ppf(0.975, len(x) - 2)) * (residual / len(x)) ** 0.5
    return slope, slope - margin, slope + margin


def bias(shown: Shown) -> Figure:
    """Draw the gap of each client against each logged bias of generated clients."""
    dataset = next((d for d in shown.datasets if shown.panels[d].get("bias")), shown.datasets[0])
    gap = gaps(shown, dataset)
    logged = pd.DataFrame.from_dict(shown.panels[dataset].get("bias", {}), orient="index").reindex(gap.index)
    names = list(logged.columns)
    columns = max(1, min(ACROSS, len(names)))
    rows = max(1, -(-len(names) // columns))
    drawn, axes = plt.subplots(rows, columns, figsize=(WIDTH, ROW_HEIGHT * rows), squeeze=False, sharey=True)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    if not names:
        axes[0, 0].text(0.5, 0.5, "no bias was planted in these clients", ha="center", transform=axes[0, 0].transAxes)
    said = []
    for ax, name in zip(axes.flat, names, strict=False):
        values = logged[name]
        numeric = pd.to_numeric(values, errors="coerce")
        if numeric.notna().all():
            x = numeric.to_numpy(float)
            positive = bool((x > 0).all()) and x.max() / x.min() > 4
            u = np.log(x) if positive else x
            ax.plot(x, gap.to_numpy(), "o", ms=4)
            slope, lo, hi = regression(u, gap.to_numpy())
            if not np.isnan(slope):
                order = np.argsort(x)
                line = gap.mean() + slope * (u - u.mean()) / u.std()
                ax.plot(x[order], line[order], "--", color="0.4", lw=1)
                said.append(f"{_words(name)}{' (log)' if positive else ''} {slope:+.4f} [{lo:+.4f}, {hi:+.4f}]")
            if positive:
                ax.set_xscale("log")
                ticks = np.geomspace(x.min(), x.max(), 3)
                ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
                ax.minorticks_off()
        else:
            kinds = sorted(set(values.astype(str)))
            place = values.astype(str).map({kind: i for i, kind in enumerate(kinds)})
            ax.plot(place, gap.to_numpy(), "o", ms=4)
            means = gap.groupby(values.astype(str)).mean()
            ax.hlines([means[k] for k in kinds], np.arange(len(kinds)) - 0.3, np.arange(len(kinds)) + 0.3, color="0.4")
            ax.set_xticks(range(len(kinds)), [_words(kind) for kind in kinds], rotation=25, ha="right")
            ax.set_xlim(-0.6, len(kinds) - 0.4)
            said.append(f"{_words(name)}: " + ", ".join(f"{_words(k)} {means[k]:+.4f}" for k in kinds))
        ax.axhline(0, color="0.6", lw=0.8)
        ax.set_xlabel(_words(name))
    for first in axes[:, 0]:
        first.set_ylabel("log MSE, FedAvg − FeDaL")
    notes = (
        f"One point a client of {shown.label(dataset)}: logarithm of FedAvg's masked error minus that of FeDaL's, with "
        "the global bias; above 0 FeDaL is better. Regression coefficients per standard deviation, each bias alone, "
        f"with 95 % intervals, or means by kind: {'; '.join(said) or EMPTY}. "
        f"{protocol_facts(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)


def _words(name: str) -> str:
    return str(name).replace("_", " ")
