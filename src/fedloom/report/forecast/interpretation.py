"""What the prototypes of a trained run are: where they lie among latent vectors, who uses them, how alike they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.errors import InputError
from fedloom.evaluation.forecast.prototypes import cosines, pairs
from fedloom.report.captions import budget, told
from fedloom.report.figure import MARKERS, Figure, grid
from fedloom.report.shown import Shown, of_run

ROW_HEIGHT = 3.0
PERPLEXITY = 30  # of t-SNE, its authors' usual one; less where there are few points

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Interpreted:
    """The first finished run of the foremost method on a dataset, as evaluation described its prototypes.

    ``watched`` [K] are ids of the clients of whom all windows were kept. ``usage`` [C, I], ``weights`` [K, W, I],
    ``latents`` [K, L, D] of the windows ``latent_windows`` [L], ``prototypes`` [K, I, D]; ``ends`` [K, W] is the last
    input step of a window, -1 where a client has none.
    """

    panel: Panel
    watched: list[str]
    usage: Floats
    weights: Floats
    latents: Floats
    latent_windows: NDArray[np.int32]
    prototypes: Floats
    ends: NDArray[np.int64]

    @property
    def true_regimes(self) -> Any | None:
        """The true regime [K, S] of the watched clients, where it is known."""
        columns = [f"regime/{client}" for client in self.watched]
        return self.panel.truth[columns].to_numpy().T if set(columns) <= set(self.panel.truth.columns) else None


def interpreted(shown: Shown, dataset: str) -> Interpreted:
    """Read a run's description. Raises InputError where no run finished or the method has no prototypes."""
    runs = shown.runs[(shown.runs["dataset"] == dataset) & (shown.runs["verdict"] == "finished")]
    of, name = of_run(runs, shown.ours), shown.names.run(shown.ours)
    if of.empty:
        raise InputError(f"{shown.where}: {dataset}: expected a finished run of {name}, found none")
    folder = of["folder"].iloc[0]
    arrays = shown.diagnostics(folder)
    if "prototypes" not in arrays:
        raise InputError(f"{folder / 'diagnostics.safetensors'}: expected the prototypes of {name}, found none")
    clients = shown.record(folder)["clients"]
    starts = arrays["starts"][arrays["watched"]].astype(np.int64)
    ends = np.where(starts < 0, -1, starts + shown.partitions[dataset]["history"] - 1)
    named = ("usage", "weights", "latents", "latent_windows", "prototypes")
    watched = [clients[place] for place in arrays["watched"]]
    return Interpreted(read_panel(shown.places[dataset]), watched, **{n: arrays[n] for n in named}, ends=ends)


def embedded(rows: Floats) -> Floats:
    """Places [n, 2] of vectors [n, D] by t-SNE of their directions, since prototypes are compared by their cosine.

    Seeded, and begun from principal components: the same vectors always lie in the same places.
    """
    directions = rows / np.linalg.norm(rows, axis=-1, keepdims=True).clip(min=1e-8)
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(directions)


def prototypes(shown: Shown) -> Figure:
    """Draw, a row a dataset: latent vectors and prototypes, use of prototypes over clients, their likeness."""
    drawn, axes = grid(len(shown.datasets), 3, ROW_HEIGHT, width_ratios=[1.25, 1, 1])
    said = []
    for row, dataset in zip(axes, shown.datasets, strict=True):
        found = interpreted(shown, dataset)
        coloured = _scatter(row[0], found)
        _use(row[1], found.usage)
        apart = _likeness(row[2], found.prototypes[0])
        row[0].set(ylabel=shown.label(dataset))
        busiest = found.usage.max(axis=1).mean()
        order = found.usage.var(axis=0).argsort()[::-1] + 1
        said.append(
            f"{shown.label(dataset)}: latent vectors of {len(found.watched)} clients are {coloured}; the largest mean "
            f"weight of a client's prototypes is {busiest:.2f} on average over {len(found.usage)} clients; weights "
            f"differ most between clients at prototypes {order[0]} and {order[1]}; the cosine of two prototypes is "
            f"{round(float(apart.mean()), 2) + 0.0:.2f} on average and at most {apart.max():.2f}."
        )
    notes = told(
        shown,
        "Left: latent vectors of test windows and the prototypes (numbered) by t-SNE of their directions. The clients "
        "are those at the middle of each fifth of all, in the order of their mean reading while training. Middle: mean "
        "weight of each prototype over a client's test windows; boxes: quartiles over clients, whiskers: all. Right: "
        "cosine of every two prototypes.",
        *said,
        budget(shown),
    )
    return Figure(drawn, shown.caption, notes)


def _scatter(ax: Axes, found: Interpreted) -> str:
    """Draw latent vectors and prototypes; returns by what vectors are told apart."""
    present = ~np.isnan(found.latents).any(axis=-1)
    client, window = np.nonzero(present)
    prototypes_ID = found.prototypes[0]
    places = embedded(np.concatenate([found.latents[present], prototypes_ID]))
    points, centres = places[: len(client)], places[len(client) :]
    regimes = found.true_regimes
    steps = found.ends[client, found.latent_windows[window]]
    kinds = client if regimes is None else regimes[client, steps].astype(int)
    colours = [each["color"] for each in plt.rcParams["axes.prop_cycle"]]
    for kind, who in sorted(set(zip(kinds.tolist(), client.tolist(), strict=True))):
        x, y = points[(kinds == kind) & (client == who)].T
        look = {"color": colours[kind % len(colours)], "marker": MARKERS[who % len(MARKERS)]}
        ax.scatter(x, y, s=8, alpha=0.5, lw=0, rasterized=True, **look)
    told_apart = sorted(set(kinds.tolist()))
    texts = [found.watched[kind] if regimes is None else f"regime {kind + 1}" for kind in told_apart]
    markers = [MARKERS[kind % len(MARKERS)] if regimes is None else "o" for kind in told_apart]
    names = [
        Line2D([], [], ls="none", ms=4, marker=marker, color=colours[kind % len(colours)], label=text)
        for kind, marker, text in zip(told_apart, markers, texts, strict=True)
    ]
    ax.scatter(centres[:, 0], centres[:, 1], s=95, color="white", edgecolor="black", lw=0.8, zorder=3)
    for number, (x, y) in enumerate(centres, start=1):
        ax.text(x, y, str(number), ha="center", va="center", fontsize=6.5, zorder=4)
    ax.set(xticks=[], yticks=[], title="latent vectors")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.legend(handles=names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, handlelength=1, columnspacing=1)
    return "marked and coloured by client" if regimes is None else "marked by client, coloured by true regime"


def _use(ax: Axes, usage_CI: Floats) -> None:
    numbers = np.arange(1, usage_CI.shape[1] + 1)
    look = {"color": "0.2", "lw": 0.9}
    ax.boxplot(
        usage_CI, positions=numbers, whis=(0, 100), widths=0.6, patch_artist=True, manage_ticks=False,
        boxprops={"facecolor": "C0", "alpha": 0.5, "lw": 0.6}, medianprops={"color": "black"}, whiskerprops=look,
        capprops=look,
    )  # fmt: skip
    ax.set(xlabel="prototype", ylabel="mean weight", xticks=numbers, ylim=(0, None), title="use by clients")


def _likeness(ax: Axes, prototypes_ID: Floats) -> Floats:
    """Draw the cosines; returns those of all pairs of two."""
    cosine_II = cosines(prototypes_ID)
    numbers = np.arange(1, len(cosine_II) + 1)
    image = ax.imshow(cosine_II, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(xticks=numbers - 1, yticks=numbers - 1, xticklabels=numbers, yticklabels=numbers, title="cosine")
    ax.set(xlabel="prototype", ylabel="prototype")
    ax.grid(visible=False)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return pairs(cosine_II)


def series_of(panel: Panel, client: str) -> pd.DataFrame:
    """Return the covariates that a client sees, by name: its own and those of everyone."""
    own = {name: name.removesuffix(f"/{client}") for name in panel.features if name.endswith(f"/{client}")}
    everyones = {name: name for name in panel.features if "/" not in name}
    return panel.features[[*own, *everyones]].rename(columns=own | everyones)
