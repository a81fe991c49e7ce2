"""How close uploaded core-sets lie to the clients' windows: obfuscation, which is not privacy."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fedloom.report.figure import Figure
from fedloom.report.layout import EMPTY
from fedloom.report.series.cells import protocol_facts
from fedloom.report.shown import Shown

WIDTH, HEIGHT = 7.2, 3.0
KINDS = {
    "real": "training\nwindows",
    "initial": "core-set\nat first",
    "learned": "core-set\nmatched",
    "sent": "core-set\nas uploaded",
}


def core_sets(shown: Shown) -> Figure:
    """Draw distances to the nearest training window, and how well membership is guessed, by kind of core-set."""
    drawn, (distance, guess) = plt.subplots(1, 2, figsize=(WIDTH, HEIGHT))
    found = [shown.diagnostics(folder) for folder in shown.runs["folder"]]
    by_kind = {}
    for kind in KINDS:
        values = [d[f"distance/{kind}"] for d in found if f"distance/{kind}" in d]
        joined = np.concatenate(values) if values else np.zeros(0)
        by_kind[kind] = joined[np.isfinite(joined)]
    known = [kind for kind in KINDS if len(by_kind[kind])]
    if known:
        distance.boxplot([by_kind[kind] for kind in known], tick_labels=[KINDS[k] for k in known], showfliers=False)
    distance.set(ylabel="RMS distance to the nearest", title="Nearest training window")
    distance.set_ylim(bottom=0)
    said = [f"{KINDS[k].replace(chr(10), ' ')} {np.median(by_kind[k]):.3f}" for k in known]
    frame = shown.metrics
    frame = frame[(frame["metric"] == "membership_auc") & (frame["selection"] == "selected")]
    aucs = []
    for place, kind in enumerate(KINDS):
        of = frame[frame["condition"] == f"coreset={kind},task=audit"]
        clients = of.loc[~of["unit"].isin(["mean", "pooled"]), "value"].dropna()
        mean = of.loc[of["unit"] == "mean", "value"].mean()
        guess.plot(np.full(len(clients), place), clients, "o", ms=4, alpha=0.5, color="C0")
        if not np.isnan(mean):
            guess.hlines(mean, place - 0.3, place + 0.3, color="0.2")
            aucs.append(f"{KINDS[kind].replace(chr(10), ' ')} {mean:.3f}")
    guess.axhline(0.5, color="0.5", ls=":", lw=1)
    guess.set_xticks(range(len(KINDS)), list(KINDS.values()))
    guess.set(ylabel="AUC", title="Guessing what was trained on")
    notes = (
        "Obfuscation, not privacy: noise on Fourier amplitudes guarantees nothing. Left: root mean squared distance "
        f"of normalised windows to the nearest training window of the same client (medians: {'; '.join(said) or EMPTY})"
        ". Right: how often a training window lies nearer to the core-set than a test window does, a client a point, "
        f"the mean a line (means: {'; '.join(aucs) or EMPTY}); 0.5 is a guess. Core-sets of the selected round, of "
        f"clients that took part in it. {protocol_facts(shown)} {shown.facts}"
    )
    return Figure(drawn, shown.caption, notes)
