"""Generated series ``tsgen``: clients that share their periods and differ by three kinds of bias, each of known size.

Series s of client i at point t, with rho_i points a base cycle and u = t / rho_i the time in base cycles:

    x(t) = sum_k a_k sin(2 pi u / T_k + phase_k) + trend + level(t) + AR(1) noise,   periods T_k from a pool all share
    value(t) = constraint_i(x(t))

*Resolution* bias is rho_i, log-uniform. *Constraint* bias is what the client's sensor or physics do to x: nothing, no
negative values, saturation, steps. *Pattern shift* bias: with rate kappa_i a change comes, after which amplitudes and
phases are new and the level drifts. A bias that is off is the same for all: the middle resolution, no constraint, no
change. What remains differs between series but not between clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.ranges import require_ranges

Array = NDArray[np.float64]
Bias = Literal["resolution", "constraint", "pattern_shift"]

POOL = (1.0, 2.0, 3.5, 7.0, 0.5)  # periods in base cycles, such as day, week
CONSTRAINTS: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "non-negative": lambda x: np.maximum(x, 0.0),
    "saturating": np.tanh,
    "step-quantised": lambda x: np.round(2 * x) / 2,
}


@dataclass(frozen=True)
class TsGen:
    """Settings of the generated series. Values have no unit; lengths are in points."""

    seed: int = 0
    clients: int = 12
    series: int = 4  # of each client
    points: int = 4096
    biases: tuple[Bias, ...] = ("resolution", "constraint", "pattern_shift")
    finest: float = 64.0  # points a base cycle at most; at least 1
    changes: float = 2.0  # most changes a thousand points
    noise_sd: float = 0.2
    memory: float = 0.7  # of the noise from point to point

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        ranges = {
            "clients": (1, 100_000),
            "series": (1, 100_000),
            "points": (2, 10_000_000),
            "finest": (1, 1e6),
            "changes": (0, 1000),
            "noise_sd": (0, 1e6),
            "memory": (0, 0.999),
        }
        require_ranges("tsgen", self, ranges)


@dataclass(frozen=True)
class Planted:
    """The biases of one client: points a base cycle, constraint, changes a thousand points, drift a thousand points."""

    resolution: float
    constraint: str
    change_rate: float
    drift: float


def planted(settings: TsGen, client: int) -> Planted:
    """The biases of ``client``, from the seed and its number alone."""
    draw = np.random.default_rng([settings.seed, client, 0])
    fineness, change, drift = draw.uniform(size=3)
    constraint = list(CONSTRAINTS)[int(draw.integers(len(CONSTRAINTS)))]
    on = settings.biases
    return Planted(
        resolution=float(settings.finest ** (fineness if "resolution" in on else 0.5)),
        constraint=constraint if "constraint" in on else "none",
        change_rate=float(settings.changes * change) if "pattern_shift" in on else 0.0,
        drift=float(2 * drift - 1) if "pattern_shift" in on else 0.0,
    )


def generate(settings: TsGen) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Rows (client, id, values, season) and the biases of every client.

    The logged biases are those of ``Planted`` and ``constrained``: how far the constraint moves the series, as a share
    of their deviation (root mean square, 0 without constraint).
    """
    rows, bias = [], {}
    for client in range(settings.clients):
        name = f"client{client:03d}"
        known = planted(settings, client)
        moved, spread = [], []
        for number in range(settings.series):
            free = _series(settings, known, np.random.default_rng([settings.seed, client, 1 + number]))
            values = CONSTRAINTS[known.constraint](free)
            moved.append(np.square(values - free).mean())
            spread.append(free.var())
            season = max(2, round(known.resolution))
            rows.append({"client": name, "id": str(number), "values": values.astype(np.float32), "season": season})
        constrained = float(np.sqrt(np.mean(moved) / np.mean(spread)))
        bias[name] = vars(known) | {"constrained": constrained}
    return pd.DataFrame(rows), bias


def _series(settings: TsGen, known: Planted, draw: np.random.Generator) -> Array:
    points = settings.points
    # What a bias changes is drawn last: a series with and without it has the same noise, trend and periods.
    noise = _noise(settings, draw)
    trend = draw.uniform(-0.5, 0.5) * np.arange(points) / points
    chosen = draw.choice(len(POOL), size=int(draw.integers(1, 4)), replace=False)
    changes = np.flatnonzero(draw.uniform(size=points) < known.change_rate / 1000)
    stretch = np.searchsorted(changes, np.arange(points), side="right")
    u = np.arange(points) / known.resolution
    x = trend + noise
    for period in np.array(POOL)[chosen]:
        amplitude = draw.uniform(0.4, 1.2, size=len(changes) + 1)
        phase = draw.uniform(0, 2 * np.pi, size=len(changes) + 1)
        x += amplitude[stretch] * np.sin(2 * np.pi * u / period + phase[stretch])
    since = np.arange(points) - np.r_[0, changes][stretch]
    drifting = np.where(stretch > 0, known.drift * since / 1000, 0.0)
    return x + drifting


def _noise(settings: TsGen, draw: np.random.Generator) -> Array:
    """Stationary AR(1) noise of deviation ``noise_sd``."""
    shocks = draw.normal(size=settings.points) * np.sqrt(1 - settings.memory**2)
    shocks[0] = draw.normal()
    noise = np.empty(settings.points)
    last = 0.0
    for t, shock in enumerate(shocks):
        noise[t] = last = settings.memory * last + shock
    return settings.noise_sd * noise
