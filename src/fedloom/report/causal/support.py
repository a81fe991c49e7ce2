"""How much of a log follows the reference policies, and what weights and propensities look like there."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.evaluation.offpolicy.weights import CLIPPING
from fedloom.report.captions import told
from fedloom.report.figure import Figure, grid
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown, of_run, runs_in

LEAST = CLIPPING["estimated"].least_propensity
HORIZONS = ("1", "2", "3", "5", "all")
ROW_HEIGHT, LEGEND_HEIGHT = 2.3, 0.5


def support(shown: Shown) -> Table:
    """Sequences that follow each policy and their effective sample size, by length of the window."""
    frame = tidy(shown)
    header = [("Steps", name) for name in ("follow", "ESS", "largest weight", "clipped", "verdict")]
    header += [("Whole windows", {"1": "1 step", "all": "to the end"}.get(h, f"{h} steps")) for h in HORIZONS]
    rows = []
    for dataset in shown.datasets:
        of = _one_run(shown, frame[frame["dataset"] == dataset])
        known = [p for p in ("logged", "estimated") if len(pick(of, metric="matches", propensity=p))]
        for policy in POLICIES:
            for propensity in known:
                mine = pick(of, policy=policy, propensity=propensity)
                cells = [
                    *_steps(pick(mine, scope="step")),
                    *(_window(pick(mine, scope="window", horizon=h)) for h in HORIZONS),
                ]
                rows.append((shown.label(dataset), f"{shown.names.word(policy)}, {propensity} propensity", cells))
    notes = told(
        shown,
        "Whole windows: sequences that follow the policy through the whole window / effective sample size (Σw)²/Σw², "
        "and why a value would say nothing: no match, low ess (below 30), clipped (a bound changed more than a tenth "
        "of the weights), no outcome (all outcomes alike), too short (no sequence is that long). A weight is at most "
        f"n/√m where m of n steps follow the policy; an estimated propensity counts as {LEAST:g} or more. Weights do "
        f"not depend on the method; these are {shown.names.method(of['method'].iloc[0])}'s.",
    )
    tidied = frame[frame["of_propensity"] != ""]
    return Table(header, rows, shown.caption, notes, tidied, ("Data set", "Policy"))


def overlap(shown: Shown) -> Figure:
    """Draw, a row a dataset, where anchors were likely and whether they were taken, and the weights of policies."""
    frame = tidy(shown)
    drawn, axes = grid(len(shown.datasets), 3, ROW_HEIGHT, LEGEND_HEIGHT)
    for (off, on, weights), dataset in zip(axes, shown.datasets, strict=True):
        of = _one_run(shown, frame[frame["dataset"] == dataset])
        for ax, anchor in ((off, "off"), (on, "on")):
            _draw_overlap(ax, pick(of, metric="propensity_count", anchor=anchor), anchor)
        off.set_title(shown.label(dataset))
        _draw_weights(shown, weights, pick(of, metric="weight_count", scope="step", propensity=practical(of)))
    drawn.legend(*_legend(axes[:, :2]), loc="outside lower left", ncols=2)
    drawn.legend(*_legend(axes[:, 2:]), loc="outside lower right", ncols=4)
    notes = told(
        shown,
        "Left and middle: share of steps by the probability of the anchor action, apart for steps where it was taken "
        "and where it was not; where one has steps and the other none, the two cannot be compared. Propensities are "
        "estimated where that was done, else logged; no picture where only the logged action's is known. Right: "
        "bounded weights of the steps that follow each policy, by logged propensities; where there are none, and in "
        "generated data, by estimates.",
    )
    return Figure(drawn, shown.caption, notes)


def _legend(axes: Iterable[Iterable[Axes]]) -> tuple[list[Artist], list[str]]:
    """What is drawn in ``axes``, each label once."""
    found: dict[str, Artist] = {}
    for ax in (each for row in axes for each in row):
        handles, labels = ax.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    return list(found.values()), list(found)


def practical(of: pd.DataFrame) -> str:
    """Return which propensities of a dataset one would use: logged ones, but in a world whose truth is known.

    There they are part of that truth, and estimates show what could be found without it.
    """
    known, generated = set(of["of_propensity"]), len(pick(of, prediction="truth")) > 0
    return "estimated" if "estimated" in known and (generated or "logged" not in known) else "logged"


def _one_run(shown: Shown, of: pd.DataFrame) -> pd.DataFrame:
    """The rows of one method: what a log supports is the same for all."""
    backed = shown.foremost_first(runs_in(of[of["metric"] == "matches"]))
    return of_run(of, backed[0]) if backed else of


def _value(of: pd.DataFrame, metric: str) -> float:
    found = pick(of, metric=metric)["ours_mean"]
    return float(found.iloc[0]) if len(found) else np.nan


def _verdict(of: pd.DataFrame) -> str:
    """Why values from weights are null, of any estimator but the model's own."""
    values = of[(of["metric"] == "value") & ~of["of_estimator"].isin(["dm", "on_policy", ""])]
    notes = [note for note in values["note"] if note]
    return notes[0].replace("_", " ") if notes else ""


def _steps(of: pd.DataFrame) -> list[Cell]:
    if of.empty:
        return [Cell()] * 5
    matches, ess, largest, clipped = (_value(of, m) for m in ("matches", "ess", "max_weight", "clipped_share"))
    printed = [f"{matches:,.0f}", f"{ess:,.0f}", f"{largest:.1f}", f"{clipped:.1%}", _verdict(of) or "supported"]
    return [Cell(each) for each in printed]


def _window(of: pd.DataFrame) -> Cell:
    if of.empty:
        return Cell()
    verdict = _verdict(of)
    return Cell(f"{_value(of, 'matches'):,.0f} / {_value(of, 'ess'):,.0f}" + (f" ({verdict})" if verdict else ""))


def _draw_overlap(ax: Axes, of: pd.DataFrame, anchor: str) -> None:
    known = set(of["of_propensity"]) if len(of) else set()
    if not known:
        ax.text(0.5, 0.5, "not known", ha="center", va="center", transform=ax.transAxes)
    else:
        of = pick(of, propensity="estimated" if "estimated" in known else "logged")
        for chosen, label in (("yes", "taken"), ("no", "not taken")):
            part = pick(of, chosen=chosen)
            upto = part["of_upto"].astype(float).to_numpy()
            share = part["ours_mean"].to_numpy() / max(part["ours_mean"].sum(), 1)
            edges = np.concatenate([[0.0], upto])
            ax.stairs(share, edges, fill=chosen == "no", alpha=0.35 if chosen == "no" else 1, label=label)
    ax.set(xlabel=f"probability of {anchor}", xlim=(0, 1), ylabel="share of steps")


def _draw_weights(shown: Shown, ax: Axes, of: pd.DataFrame) -> None:
    styles = plt.rcParams["axes.prop_cycle"]
    for policy, style in zip(POLICIES, styles, strict=False):
        mine = pick(of, policy=policy)
        if mine.empty:
            continue
        mine = mine.assign(upto=mine["of_upto"].astype(float)).sort_values("upto")
        share = mine["ours_mean"].cumsum() / mine["ours_mean"].sum()
        # A deterministic policy's weight is at least 1.
        upto = [1.0, *mine["upto"]]
        ax.plot(upto, [0.0, *share], label=shown.names.word(policy), drawstyle="steps-post", **style)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="weight, at most", ylabel="share of matches", ylim=(0, 1.02))
