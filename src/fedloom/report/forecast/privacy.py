"""What noise on uploads promises and costs: error against epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.errors import InputError
from fedloom.evaluation.privacy import epsilon_of_means, epsilon_of_uploads
from fedloom.federation.protocol import Protocol
from fedloom.federation.upload_noise import UploadNoise
from fedloom.report.captions import told
from fedloom.report.figure import Figure, grid, legend
from fedloom.report.numbers import headline
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.8, 0.4
LEAST_EXTENT = 0.02  # of the least error: how much a panel shows at least

VIEWS = {"uploads": "ε against a server that sees uploads", "means": "ε against one who sees means alone"}
PROMISE = (
    "ε at δ = {delta:g} protects all that one client has: exchanging its data moves a clipped upload by at most twice "
    "the clip; rounds compose. Against the server, which sees every noisy upload of a client, and against one who sees "
    "nothing but each round's weighted mean over clients (as under secure aggregation). Sample counts and the "
    "validation scores that select the round are not protected."
)


@dataclass(frozen=True)
class PrivacyOptions:
    """``delta`` is the probability that the promise fails; ``metric`` the error that is drawn."""

    delta: float
    metric: str = "mae"


@dataclass(frozen=True)
class Promise:
    """Noise of a run's uploads, and its epsilon in either view; infinite without a promise."""

    noise: UploadNoise | None
    uploads: float
    means: float


def promise(shown: Shown, folder: Path, delta: float) -> Promise:
    """What the noise of a run promises, by the uploads that its clients made."""
    record = shown.record(folder)
    noise = Protocol(**record["spec"]["protocol"]).noise
    if noise is None:
        return Promise(None, math.inf, math.inf)
    log = shown.rounds(folder)
    sent = log[log["quantity"] == "upload_length"]
    most, joining = int(sent["client"].value_counts().max()), int(sent["round"].value_counts().max())
    samples = np.array([count for count in record["train_samples"] if count])
    means = epsilon_of_means(noise, samples, joining, sent["round"].nunique(), delta)
    return Promise(noise, epsilon_of_uploads(noise, most, delta), means)


def error_by_epsilon(shown: Shown, options: PrivacyOptions) -> Figure:
    """Draw, a row a dataset, the error of runs with noisy uploads by epsilon in two views.

    Level lines: the same method without noise, and clipped without noise.
    """
    points = _points(shown, options)
    if not np.isfinite(points["uploads"]).any():
        raise InputError(f"{shown.where}: expected a run whose noise promises something, found none")
    drawn, axes = grid(len(shown.datasets), len(VIEWS), ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    handles: dict[str, Any] = {}
    for row, dataset in zip(axes, shown.datasets, strict=True):
        of = points[points["dataset"] == dataset]
        for ax, (view, label) in zip(row, VIEWS.items(), strict=True):
            handles |= dict(_levels(ax, of))
            handles |= dict(_curve(ax, of[np.isfinite(of[view])], view))
            ax.set(xlabel=label, title=shown.label(dataset))
        unit = shown.panels[dataset]["unit"]
        row[0].set_ylabel(f"{shown.names.word(options.metric)} ({unit})")
        # Errors that are all but the same shall look so.
        low, high = row[0].get_ylim()
        spare = max(0.0, LEAST_EXTENT * of["mean"].min() - (high - low)) / 2
        row[0].set_ylim(low - spare, high + spare)
        row[0].ticklabel_format(axis="y", useOffset=False)
    legend(drawn, handles, 3)
    clips = sorted({noise.clip for noise in points["noise"] if noise is not None and noise.clip is not None})
    notes = told(
        shown,
        f"Clients clip the change of what they send to a length of {' or '.join(f'{clip:g}' for clip in clips)} and "
        "add Gaussian noise to every number, whose standard deviation σ stands at the points. Smaller ε promises more; "
        "points: mean over seeds, bars: least to largest.",
        PROMISE.format(delta=options.delta),
        "Errors on the test part, pooled; weights of the round that was best in validation.",
    )
    return Figure(drawn, shown.caption, notes)


def _points(shown: Shown, options: PrivacyOptions) -> pd.DataFrame:
    """One row a variant of the foremost method on a dataset: its error over seeds, its noise, epsilon by view."""
    metrics = shown.metrics
    metrics = metrics[headline(metrics) & (metrics["metric"] == options.metric) & (metrics["method"] == shown.foremost)]
    rows: list[dict[str, Any]] = []
    for (dataset, variant), of in metrics.groupby(["dataset", "variant"], sort=False):
        folders = shown.folders_of(dataset, (shown.foremost, variant))
        found = [promise(shown, folder, options.delta) for folder in folders.values()]
        value = of["value"].dropna()
        if len(value):
            rows.append(
                {"dataset": dataset, "variant": variant, "noise": found[0].noise}
                | {"uploads": max(each.uploads for each in found), "means": max(each.means for each in found)}
                | {"mean": value.mean(), "least": value.min(), "largest": value.max()}
            )
    return pd.DataFrame(rows)


def _levels(ax: Axes, of: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    for point in of.itertuples():
        noise: Any = point.noise
        if noise is None:
            yield "no noise, no clipping", ax.axhline(point.mean, color="C1", ls="--", lw=1.2)
        elif noise.scale == 0:
            yield "clipped, no noise", ax.axhline(point.mean, color="C2", ls=":", lw=1.2)


def _curve(ax: Axes, of: pd.DataFrame, view: str) -> Iterator[tuple[str, Any]]:
    if of.empty:
        return
    of = of.sort_values(view)
    spread = [of["mean"] - of["least"], of["largest"] - of["mean"]]
    drawn = ax.errorbar(of[view], of["mean"], yerr=spread, color="C0", marker="o", ms=4, capsize=2)
    ax.set_xscale("log")
    ax.margins(x=0.12, y=0.15)
    for point in of.itertuples():
        at = getattr(point, view), point.mean
        noise: Any = point.noise
        ax.annotate(f"σ {noise.scale:g}", at, xytext=(0, 6), textcoords="offset points", ha="center", fontsize=7)
    yield "clipped, with Gaussian noise", drawn
