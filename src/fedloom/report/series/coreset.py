"""How close uploaded core-sets lie to the clients' windows: obfuscation, which is not privacy."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fedloom.evaluation.rows import condition
from fedloom.report.captions import steps, told
from fedloom.report.figure import Figure, grid
from fedloom.report.layout import EMPTY
from fedloom.report.numbers import UNITS, pick
from fedloom.report.shown import Shown

HEIGHT = 3.0
KINDS = {
    "real": "training\nwindows",
    "initial": "core-set\nat first",
    "learned": "core-set\nmatched",
    "sent": "core-set\nas uploaded",
}


def core_sets(shown: Shown) -> Figure:
    """Draw distances to the nearest training window, and how well membership is guessed, by kind of core-set."""
    drawn, axes = grid(1, 2, HEIGHT)
    distance, guess = axes[0]
    medians, means = _draw_distances(shown, distance), _draw_guesses(shown, guess)
    notes = told(
        shown,
        "Obfuscation, not privacy: noise on Fourier amplitudes guarantees nothing. Left: root mean squared distance "
        f"of normalised windows to the nearest training window of the same client (medians: {_listed(medians)}). "
        "Right: how often a training window lies nearer to the core-set than a test window does, a client a point, "
        f"the mean a line (means: {_listed(means)}); 0.5 is a guess. Core-sets of the selected round, of clients that "
        "took part in it.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _draw_distances(shown: Shown, ax: Axes) -> dict[str, float]:
    """Draw a box a kind; return the medians."""
    found = [shown.diagnostics(folder) for folder in shown.runs["folder"]]
    by_kind = {}
    for kind in KINDS:
        joined = np.concatenate([np.zeros(0), *(d[f"distance/{kind}"] for d in found if f"distance/{kind}" in d)])
        finite = joined[np.isfinite(joined)]
        if len(finite):
            by_kind[kind] = finite
    if by_kind:
        ax.boxplot(list(by_kind.values()), tick_labels=[KINDS[kind] for kind in by_kind], showfliers=False)
    ax.set(ylabel="RMS distance to the nearest", title="Nearest training window")
    ax.set_ylim(bottom=0)
    return {kind: float(np.median(values)) for kind, values in by_kind.items()}


def _draw_guesses(shown: Shown, ax: Axes) -> dict[str, float]:
    """Draw a point a client and kind; return the means over clients."""
    means = {}
    for place, kind in enumerate(KINDS):
        under = condition(coreset=kind, task="audit")
        of = pick(shown.metrics, metric="membership_auc", selection="selected", condition=under)
        clients = of.loc[~of["unit"].isin(UNITS), "value"].dropna()
        mean = of.loc[of["unit"] == "mean", "value"].mean()
        ax.plot(np.full(len(clients), place), clients, "o", ms=4, alpha=0.5, color="C0")
        if not np.isnan(mean):
            ax.hlines(mean, place - 0.3, place + 0.3, color="0.2")
            means[kind] = float(mean)
    ax.axhline(0.5, color="0.5", ls=":", lw=1)
    ax.set_xticks(range(len(KINDS)), list(KINDS.values()))
    ax.set(ylabel="AUC", title="Guessing what was trained on")
    return means


def _listed(numbers: dict[str, float]) -> str:
    said = [f"{' '.join(KINDS[kind].split())} {number:.3f}" for kind, number in numbers.items()]
    return "; ".join(said) or EMPTY
