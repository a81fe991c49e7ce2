"""Figure 3 of Atlas: does leakage follow the mean of confounding, and is it zero where that is?"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedloom.errors import InputError
from fedloom.evaluation.forecast.leakage import GAUSSIAN, PANEL
from fedloom.report.captions import told
from fedloom.report.figure import Figure, Look, banded, grid, legend
from fedloom.report.numbers import pick, with_parts
from fedloom.report.shown import Shown

ROW_HEIGHT, LEGEND_HEIGHT = 2.0, 0.6
SCALES = ("-", "--", ":", "-.")
LINES: dict[str, tuple[str, Look]] = {
    "federated": ("federated prototype", {"color": "C0"}),
    "optimum": ("best shared prototype", {"color": "C1", "marker": "o", "ms": 4.5, "mfc": "none"}),
    "alone": ("each client's own", {"color": "C2"}),
}


def leakage_lines(shown: Shown) -> Figure:
    """Draw leakage by the mean of confounding (left) and by its spread at mean zero (right).

    A row a panel, then one for each correlation of Gaussian data.
    """
    found = with_parts(shown.metrics.reset_index(drop=True))
    leaked = pick(found, metric="leakage")
    if leaked.empty:
        raise InputError(f"{shown.where}: expected runs with a simulation of leakage, found none")
    for name in ("mean", "spread", "scale"):
        leaked[f"of_{name}"] = leaked[f"of_{name}"].astype(float)
    rows = dict(_sources(shown, leaked))
    drawn, axes = grid(len(rows), 2, ROW_HEIGHT, LEGEND_HEIGHT, sharey="row")
    scales = sorted(set(leaked["of_scale"]))
    for (by_mean, by_spread), (label, of) in zip(axes, rows.items(), strict=True):
        fixed = _fixed_spread(of)
        _draw(by_mean, pick(of, spread=fixed), "of_mean", scales)
        _draw(by_spread, pick(of, mean=0.0), "of_spread", scales)
        by_mean.set(title=label, ylabel="leakage", xlabel=f"mean confounding c̄, spread δ = {fixed:g}")
        by_spread.set(title=label, xlabel="spread of confounding δ, mean c̄ = 0")
    legend(drawn, _handles(scales), 3)
    notes = told(
        shown,
        "Leakage |pₛ| / ‖p‖ of a shared prototype onto a feature s = c y + noise, where c is δ above its mean c̄ at "
        "half of the clients and δ below at the others; 0: the prototype looks at x alone, 1: at s alone. x and y are "
        "means over windows' inputs and targets, standardised at each client, times the deviation that a line's style "
        "names. Federated: rounds of local steps and averages of the prototype; best: searched over all directions; "
        "own: least squares of each client, mean over clients. Line: mean over trials, band: least to largest; points: "
        "every trial. Where the best shared prototype lies at 1 without mean confounding, each client's own sign "
        "makes s the better feature; federated rounds, which start nearer to x, do not get there.",
        _correlations(shown, pick(found, metric="correlation")),
    )
    return Figure(drawn, shown.caption, notes)


def _sources(shown: Shown, leaked: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for dataset in shown.datasets:
        yield shown.label(dataset), pick(leaked, data=PANEL, dataset=dataset)
    # Gaussian data are the same beside every panel.
    drawn = pick(leaked, data=GAUSSIAN, dataset=shown.datasets[0])
    if len(drawn):
        for correlation in sorted(set(drawn["of_correlation"])):
            yield f"Gaussian, correlation {correlation}", pick(drawn, correlation=correlation)


def _fixed_spread(of: pd.DataFrame) -> float:
    """The spread at which means vary."""
    return float(of.loc[of["of_mean"] != 0, "of_spread"].iloc[0])


def _draw(ax: Axes, of: pd.DataFrame, x: str, scales: list[float]) -> None:
    for line, (_, look) in LINES.items():
        for scale, style in zip(scales, SCALES, strict=False):
            values = pick(of, line=line, scale=scale)
            if "marker" in look:  # it may leap, so that a mean over trials would be no trial's
                ax.plot(values[x], values["value"], **look, ls="none")
                continue
            over_trials = values.groupby(x)["value"].agg(mean="mean", least="min", largest="max")
            banded(ax, over_trials.index, over_trials, look | {"ls": style})


def _handles(scales: list[float]) -> dict[str, Line2D]:
    lines = {label: Line2D([], [], **look, ls="none" if "marker" in look else "-") for label, look in LINES.values()}
    styles = dict(zip(scales, SCALES, strict=False))
    return lines | {
        f"deviation of x and y: {scale:g}": Line2D([], [], color="0.4", ls=style) for scale, style in styles.items()
    }


def _correlations(shown: Shown, found: pd.DataFrame) -> str:
    said = []
    for dataset in shown.datasets:
        of = pick(found, dataset=dataset)
        extent = f"{of['lo'].min():.2f} to {of['hi'].max():.2f}"
        said.append(f"{of['value'].mean():.2f} ({extent}) on {shown.label(dataset)}")
    return f"Correlation of x and y at clients, mean (least to largest): {'; '.join(said)}."
