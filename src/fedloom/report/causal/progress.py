"""What learning brings as rounds and megabytes go by: error of effects by round, against what needs no model.

Errors by round are those of the kept weights of these rounds against the truth; training logs none of them.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedloom.report.captions import told
from fedloom.report.curves import Curve, over_seeds
from fedloom.report.figure import Figure, Look, banded, dots, grid, legend, looks
from fedloom.report.names import Run
from fedloom.report.numbers import ROW, pick, with_parts
from fedloom.report.shown import Shown, of_run

METRIC = "pehe_root"
STAYS = 3
"""How many evaluations in a row must stay at or below a target for it to count as reached."""

LEVELS = {"constant_effect": ("true mean effect for everyone", ":"), "oracle": ("true mechanism, as few draws", "-.")}
"""What needs no model, on the same units: name in print and line style."""

TARGET = "constant_effect"

ROW_HEIGHT, LEGEND_ROW, LEGEND_COLUMNS = 2.7, 0.2, 3


def convergence(shown: Shown) -> Figure:
    """Draw root PEHE over a window by round on every dataset with a truth, and by megabyte sent up."""
    frame = by_round(shown)
    datasets = [dataset for dataset in shown.datasets if dataset in set(frame["dataset"])]
    # Few rounds are kept: a marker shows which, and tells more methods apart than lines do.
    marks = dots(shown.compared)
    styles = {run: look | {"marker": marks[run]["marker"], "ms": 3} for run, look in looks(shown.compared).items()}
    below = LEGEND_ROW * math.ceil((len(styles) + len(LEVELS)) / LEGEND_COLUMNS)
    drawn, axes = grid(max(1, len(datasets)), 2, ROW_HEIGHT, below, sharey="row")
    handles: dict[str, Artist] = {}
    reached: list[str] = []
    for (left, right), dataset in zip(axes, datasets, strict=False):
        of = frame[frame["dataset"] == dataset]
        levels = {name: of.loc[of["of_prediction"] == name, "value"].mean() for name in LEVELS}
        for run, look in styles.items():
            value = progress(shown, of, dataset, run)
            if value is not None:
                handles[shown.names.run(run)] = _draw(left, right, value, look)
                reached.append(f"{shown.names.run(run)} {_reached(value.error['mean'], levels[TARGET])}")
        for level, (label, style) in LEVELS.items():
            for ax in (left, right):
                handles[label] = ax.axhline(levels[level], color="0.35", ls=style, lw=1)
        left.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        left.set(title=shown.label(dataset), xlabel="round", ylabel="root PEHE")
        right.set(xlabel="sent up by all clients (MB)")
    legend(drawn, handles, LEGEND_COLUMNS)
    notes = told(
        shown,
        f"Root PEHE over a window on {_units(frame)} by the weights of each round that was kept, computed after "
        "training, which never sees it; line: mean over seeds, band: least to largest.",
        _early(frame),
        "Dotted, the target: the error of giving everyone the true mean effect. Dash-dotted: what so few draws leave "
        f"of the true mechanism itself. At or below the target, kept for {STAYS} evaluations: "
        f"{'; '.join(reached) or 'nothing was kept'}.",
    )
    return Figure(drawn, shown.caption, notes)


def by_round(shown: Shown) -> pd.DataFrame:
    """Return the errors of the rounds' weights: dataset, method, variant, seed, round (from 0), value, n, and parts.

    ``of_prediction`` is empty for the model's own; ``early`` says that the model was not whole yet in that round.
    """
    metrics = shown.metrics
    of = metrics[(metrics["metric"] == METRIC) & (metrics["selection"] == "last")].reset_index(drop=True)
    of = pick(with_parts(of[[*ROW, "seed", "condition", "value", "n"]]), scope="window")
    parts = of.reindex(columns=["of_round", "of_selectable", "of_prediction"]).fillna("")
    of = of.assign(**parts)[parts["of_round"] != ""]
    return of.assign(round=of["of_round"].astype(int), early=of["of_selectable"] == "no")


def progress(shown: Shown, frame: pd.DataFrame, dataset: str, run: Run) -> Curve | None:
    """Return the curve of a method's variant from the rows of ``by_round``; None where it has none."""
    folders = shown.folders_of(dataset, run)
    own = of_run(pick(frame, dataset=dataset, prediction=""), run)
    values = {seed: of.set_index("round")["value"] for seed, of in own.groupby("seed")}
    return over_seeds(list(values.values()), [shown.rounds(folders[seed]) for seed in values])


def rounds_to_target(error: pd.Series, target: float) -> int | None:
    """Return the first round from which the error stays at or below ``target`` for ``STAYS`` evaluations.

    ``error`` is indexed by round; None where that never happens, as with fewer evaluations than that.
    """
    below = (error.to_numpy() <= target).astype(int)
    for first in range(len(below) - STAYS + 1):
        if below[first : first + STAYS].all():
            return int(error.index[first])
    return None


def _reached(error: pd.Series, target: float) -> str:
    """When a method reached the target, in words; a stay that the end of training cuts short is told apart."""
    rounds = rounds_to_target(error, target)
    if rounds is not None:
        return f"from round {rounds}"
    above = np.flatnonzero(error.to_numpy() > target)
    stay = len(error) - (int(above[-1]) + 1 if len(above) else 0)
    if not stay:
        return "not"
    return f"from round {error.index[-stay]}, but training ended after {stay} evaluation{'s' * (stay > 1)}"


def _draw(left: Axes, right: Axes, value: Curve, look: Look) -> Artist:
    if value.sent.iloc[-1] > 0:
        right.plot(value.sent, value.error["mean"], **look)
    return banded(left, value.error.index, value.error, look)


def _units(frame: pd.DataFrame) -> str:
    counts = sorted(set(frame["n"]))
    return f"{'/'.join(str(n) for n in counts)} test sequences"


def _early(frame: pd.DataFrame) -> str:
    """Which rounds show a model that is not whole yet."""
    early = sorted(set(frame.loc[frame["early"], "round"] + 1))
    if not early:
        return ""
    listed = f"round{'s' * (len(early) > 1)} {', '.join(map(str, early))}"
    return f"Dynamics or decoder are not trained to the end by {listed}, which could not be selected."
