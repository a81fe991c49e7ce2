"""Error against how much goes wrong between clients and server, with and without a robust rule at the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, NullFormatter

from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.report.captions import budget, told
from fedloom.report.figure import MARKERS, Figure, Look, banded, legend, tiles
from fedloom.report.numbers import headline
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT, ACROSS = 2.3, 0.7, 3
STYLES = ("-", "--", ":", "-.")
WIDE = 4.0  # times the least error of a panel: beyond it, errors are drawn by their logarithm
DIVERGED = "diverged"  # in the legend
KINDS = ("absent", "lost", "late", "nan", "huge")


@dataclass(frozen=True)
class FaultOptions:
    """``metric`` is the error that is drawn."""

    metric: str = "mae"


def error_by_fault(shown: Shown, options: FaultOptions) -> Figure:
    """Draw, a panel a dataset and kind of fault, errors by the share hit: a line a method and rule."""
    points = _points(shown, options.metric)
    kinds = [kind for kind in KINDS if (points["kind"] == kind).any()]
    if not kinds:
        raise InputError(f"{shown.where}: expected runs with faults, found none")
    wanted = list(product(shown.datasets, kinds))
    drawn, axes = tiles(len(wanted), ACROSS, ROW_HEIGHT, LEGEND_HEIGHT)
    styles = _looks(shown, points)
    methods = list(dict.fromkeys(method for method, _ in styles))
    handles: dict[str, Artist] = {}
    for ax, (dataset, kind) in zip(axes, wanted, strict=False):
        of = points[(points["dataset"] == dataset) & points["kind"].isin([kind, ""])]
        for (method, rule), look in styles.items():
            name = f"{shown.names.method(method)}, {shown.names.word(rule)}"
            line = of[(of["method"] == method) & (of["rule"] == rule)]
            if (line["kind"] == kind).any():
                height = 0.97 - 0.07 * methods.index(method)
                handles |= {n: handle for n, handle in _draw(ax, line, look, name, height) if n not in handles}
        _finish(ax, shown.names.word(kind), sorted(set(of["share"])))
        where = f"{shown.label(dataset)}\n" if len(shown.datasets) > 1 else ""
        ax.set_ylabel(f"{where}{shown.names.word(options.metric)} ({shown.panels[dataset]['unit']})")
    legend(drawn, dict(sorted(handles.items(), key=lambda each: each[0] == DIVERGED)), 4)
    return Figure(drawn, shown.caption, told(shown, *_notes(shown, kinds), budget(shown)))


def _points(shown: Shown, metric: str) -> pd.DataFrame:
    """One row a run: dataset, method, seed, kind of fault ("" where there is none), share in per cent, rule, error."""
    metrics = shown.metrics
    metrics = metrics[headline(metrics) & (metrics["metric"] == metric)]
    found = []
    for run in shown.runs.itertuples():
        kind, share, rule = _met(shown, Protocol(**shown.record(run.folder)["spec"]["protocol"]), run.variant)
        found.append({"variant": run.variant, "kind": kind, "share": 100 * share, "rule": rule})
    who = ["dataset", "method", "variant", "seed"]
    runs = pd.concat([shown.runs[["dataset", "method", "seed"]], pd.DataFrame(found, index=shown.runs.index)], axis=1)
    return runs.merge(metrics[[*who, "value"]], on=who)


def _met(shown: Shown, protocol: Protocol, variant: str) -> tuple[str, float, str]:
    """The kind of fault that a run met, its share, and the server's rule."""
    faults = protocol.faults
    shares = {"absent": 1 - protocol.participation, "lost": faults.lost, "late": faults.late}
    shares[faults.filled_with] = faults.garbage
    some = {kind: share for kind, share in shares.items() if share > 0}
    if len(some) > 1:
        raise InputError(f"{shown.where}: {variant}: expected at most one kind of fault, found {' and '.join(some)}")
    return *next(iter(some.items()), ("", 0.0)), protocol.server_rule.kind


def _looks(shown: Shown, points: pd.DataFrame) -> dict[tuple[str, str], Look]:
    """A look for each method (colour) and rule (line and marker), the foremost method first."""
    rules = list(dict.fromkeys(points["rule"]))
    methods = [method for method, variant in shown.compared if variant == "base"]
    methods += [method for method in dict.fromkeys(points["method"]) if method not in methods]
    colours = [each["color"] for each in plt.rcParams["axes.prop_cycle"]]
    return {
        (method, rule): {
            "color": colours[i % len(colours)],
            "ls": STYLES[j % len(STYLES)],
            "marker": MARKERS[j % len(MARKERS)],
            "ms": 4,
        }
        for i, method in enumerate(methods)
        for j, rule in enumerate(rules)
    }


def _draw(ax: Axes, runs: pd.DataFrame, look: Look, name: str, height: float) -> Iterator[tuple[str, Artist]]:
    """Draw one line, and a cross at ``height`` of the panel where a run diverged; yields what the legend names."""
    ended = runs.groupby("share")["value"]
    errors = ended.agg(mean="mean", least="min", largest="max", failed=lambda values: values.isna().any())
    failed = errors["failed"].astype(bool)
    yield name, banded(ax, errors.index[~failed], errors[~failed], look)
    lost = errors.index[failed]
    if len(lost):
        ax.margins(y=0.25)  # room for crosses beside each other
        above = ax.get_xaxis_transform()
        cross: Look = {"marker": "X", "ls": "none", "ms": 7, "mec": "white", "mew": 0.5}
        ax.plot(lost, [height] * len(lost), color=look["color"], transform=above, **cross)
        yield DIVERGED, Line2D([], [], color="0.3", **cross)


def _finish(ax: Axes, title: str, shares: list[float]) -> None:
    ax.set(title=title, xlabel="share hit (%)", xticks=shares, xticklabels=[f"{share:.3g}" for share in shares])
    low, high = ax.dataLim.intervaly
    if high > WIDE * low > 0:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter() if high > 10 * low else LogFormatter(minor_thresholds=(2, 0.5)))


def _notes(shown: Shown, kinds: list[str]) -> list[str]:
    said = {
        "absent": "so many clients sit out a round",
        "lost": "a client trains and goes away before it sends",
        "late": "what a client sent some uploads ago arrives in place of what it sends",
        "nan": "so many clients send what is not a number, all the time",
        "huge": "so many clients send normal draws with deviation a million, all the time",
    }
    meaning = "; ".join(f"{shown.names.word(kind)}: {said[kind]}" for kind in kinds)
    return [
        f"Error on the test part by the share of clients, or of uploads, that a fault hits. {meaning}. A server with a "
        "robust rule puts uploads that are not finite aside; one that takes the mean ends there as diverged.",
        "Line: mean over seeds, band: least to largest. A cross near the upper edge: a run diverged. Where the largest "
        f"error is more than {WIDE:g} times the least, errors are drawn by their logarithm.",
    ]
