"""How the error on series that nobody trained on falls with clients, with taking part, and with the model's size."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedloom.evaluation.schema import IDENTITY
from fedloom.report.captions import steps, told
from fedloom.report.figure import Figure, grid
from fedloom.report.numbers import pick, with_parts
from fedloom.report.series.regression import regress
from fedloom.report.shown import Shown

HEIGHT = 2.9
RESPECTS = {
    "clients": "clients",
    "windows_each": "training windows a client",
    "joining": "share of clients a round",
    "parameters": "parameters of the model",
}
APART = {"windows_each": 1.25}
"""Sizes that lie within this factor of each other count as equal: clients are not cut to the same number of windows."""

ALIKE = 1.01


def facts_of_runs(shown: Shown) -> pd.DataFrame:
    """Return one row a finished run: its size in each respect, and its masked error on held-out sets.

    Columns: method, dataset, variant, seed, clients, windows_each (training windows of a client, mean), joining (the
    share of clients that take part), parameters, error (mean over held-out sets and rates).
    """
    metrics = shown.metrics[(shown.metrics["metric"] == "mse") & (shown.metrics["selection"] == "selected")]
    metrics = metrics[metrics["condition"].str.contains("target=")].reset_index(drop=True)
    unseen = pick(with_parts(metrics), task="reconstruction", rate="mean", prediction="")
    error = unseen.groupby(IDENTITY)["value"].agg(lambda values: values.mean(skipna=False))
    rows = []
    for run in shown.runs.itertuples():
        record = shown.record(run.folder)
        own = (run.dataset, run.method, run.variant, run.seed)
        sizes = {"clients": len(record["clients"]), "parameters": record["parameters"]}
        sizes["windows_each"] = sum(record["train_samples"]) / len(record["clients"])
        sizes["joining"] = record["spec"]["protocol"]["participation"]
        rows.append(dict(zip(IDENTITY, own, strict=True)) | sizes | {"error": error.get(own, np.nan)})
    frame = pd.DataFrame(rows)
    return frame[frame["error"].notna()].reset_index(drop=True)


def series_along(frame: pd.DataFrame, respect: str) -> pd.DataFrame:
    """Return the runs that differ in ``respect`` and in nothing else that is drawn: the largest such set.

    Empty where no two runs do.
    """
    sizes = {name: _rounded(frame[name], APART.get(name, ALIKE)) for name in RESPECTS}
    others = [sizes[name] for name in RESPECTS if name != respect]
    best, most = frame.iloc[:0], 1
    for _, places in frame.groupby([frame["method"], *others]).groups.items():
        different = sizes[respect].loc[places].nunique()
        if different > most:
            best, most = frame.loc[places], different
    return best.sort_values(respect)


def scaling(shown: Shown) -> Figure:
    """Draw the error on held-out sets against each size that the runs differ in, with the log-log slope."""
    frame = facts_of_runs(shown)
    found = {respect: series_along(frame, respect) for respect in RESPECTS} if len(frame) else {}
    found = {respect: some for respect, some in found.items() if len(some)}
    drawn, axes = grid(1, max(1, len(found)), HEIGHT, sharey=True)
    said = [_draw(ax, respect, some) for ax, (respect, some) in zip(axes[0], found.items(), strict=False)]
    axes[0, 0].set_ylabel("masked MSE, held-out sets")
    if found:
        _plain_errors(axes[0, 0], pd.concat([some["error"] for some in found.values()]))
    method = shown.names.method(frame["method"].iloc[0]) if len(frame) else ""
    notes = told(
        shown,
        f"{method}: masked reconstruction of held-out sets (mean over sets and five rates). Each panel shows runs that "
        "differ in one size alone, at equal rounds; dashed: least squares of logarithms, with the slope's 95 % "
        "interval where three runs or more have one.",
        f"Slopes: {'; '.join(each for each in said if each) or 'no two runs differ in one size'}.",
        steps(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _draw(ax: Axes, respect: str, some: pd.DataFrame) -> str:
    """Draw errors against one size; return the slope in words, empty where there is none."""
    said = ""
    ax.plot(some[respect], some["error"], "o", ms=5)
    line = regress(np.log(some[respect].to_numpy(np.float64)), np.log(some["error"].to_numpy(np.float64)))
    if line is not None:
        ends = np.array([some[respect].min(), some[respect].max()], dtype=np.float64)
        ax.plot(ends, np.exp(line.intercept) * ends**line.slope, "--", color="0.4", lw=1)
        interval = "" if np.isnan(line.lo) else f" [{line.lo:.3f}, {line.hi:.3f}]"
        ax.set_title(f"slope {line.slope:+.3f}")
        said = f"{RESPECTS[respect]}: {line.slope:+.3f}{interval} from {len(some)} runs"
    ax.set(xscale="log", yscale="log", xlabel=RESPECTS[respect])
    ticks = sorted(set(some[respect]))
    ax.set_xticks(ticks, [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return said


def _rounded(values: pd.Series, factor: float) -> pd.Series:
    return (np.log(values.astype(float)) / np.log(factor)).round()


def _plain_errors(ax: Axes, errors: pd.Series) -> None:
    """A few ticks with plain numbers, however narrow the range is."""
    low, high = errors.min(), errors.max()
    ticks = np.geomspace(low, high, 4) if high > low else np.array([low])
    ax.set_yticks(ticks, [f"{tick:#.4g}" for tick in ticks])
    ax.minorticks_off()
