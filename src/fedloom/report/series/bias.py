"""Which planted bias explains where FeDaL gains on FedAvg: the gap of every client regressed on what was planted."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.report.figure import Figure
from fedloom.report.layout import EMPTY
from fedloom.report.series.cells import masked_errors, protocol_facts
from fedloom.report.series.regression import Slope, regress
from fedloom.report.shown import Shown

Floats = NDArray[np.float64]
WIDTH, ROW_HEIGHT, ACROSS = 7.2, 2.5, 3
OURS, THEIRS = "fedal", "fedavg"


def gaps(shown: Shown, dataset: str) -> pd.Series:
    """Return, by client, how much smaller FeDaL's masked error is than FedAvg's, in logarithms; mean over seeds."""
    frame = masked_errors(shown)
    wanted = (frame["dataset"] == dataset) & (frame["variant"] == "base") & (frame["unit"] != "mean")
    by_method = frame[wanted].groupby(["method", "unit"])["value"].mean().unstack("method")
    if OURS not in by_method or THEIRS not in by_method:
        return pd.Series(dtype=float)
    gap: pd.Series = np.log(by_method[THEIRS]) - np.log(by_method[OURS])
    return gap.dropna()


def per_deviation(x_N: Floats, y_N: Floats) -> Slope | None:
    """Return the least-squares line of y on standardised x; None where x does not move."""
    return regress((x_N - x_N.mean()) / x_N.std(), y_N) if len(set(x_N)) > 1 else None


def bias(shown: Shown) -> Figure:
    """Draw the gap of each client against each logged bias of generated clients."""
    dataset = next((d for d in shown.datasets if shown.panels[d].get("bias")), shown.datasets[0])
    gap = gaps(shown, dataset)
    logged = pd.DataFrame.from_dict(shown.panels[dataset].get("bias", {}), orient="index").reindex(gap.index)
    numeric = {name: pd.to_numeric(logged[name], errors="coerce") for name in logged}
    # Kinds last: their labels need room below.
    names = sorted(numeric, key=lambda name: bool(numeric[name].isna().any()))
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
        if numeric[name].notna().all():
            x = numeric[name].to_numpy(float)
            positive = bool((x > 0).all()) and x.max() / x.min() > 4
            u = np.log(x) if positive else x
            ax.plot(x, gap.to_numpy(), "o", ms=4)
            found = per_deviation(u, gap.to_numpy())
            if found is not None:
                order = np.argsort(x)
                line = found.intercept + found.slope * (u - u.mean()) / u.std()
                ax.plot(x[order], line[order], "--", color="0.4", lw=1)
                interval = f"[{found.lo:+.4f}, {found.hi:+.4f}]"
                said.append(f"{_words(name)}{' (log)' if positive else ''} {found.slope:+.4f} {interval}")
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
            ax.set_xticks(range(len(kinds)), [_words(kind).replace("-", "-\n") for kind in kinds], fontsize="small")
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
