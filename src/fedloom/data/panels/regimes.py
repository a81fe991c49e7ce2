"""The generated panel ``regimes``: clients that live in known environments, on a graph with planted lagged influence.

Every client is at each step in one of R latent regimes. A regime has a level and a daily shape of its own; clients meet
the regimes in unequal shares; a regime holds for a random while and then gives way to another (a semi-Markov chain).
For client i at step t, with d_j the part of client j's reading that its own calendar pattern does not explain,

    signal_i(t) = calendar_i(t) + regime shape_i(t) + covariate effect(t) + strength * sum_j weight_ji * d_j(t - lag)
    value_i(t)  = signal_i(t) + noise,   d_i(t) = value_i(t) - calendar_i(t) - covariate effect(t)

Who knows the regimes and the neighbours' past up to ``lag`` knows the signal, so no forecast can beat ``noise_sd`` in
RMSE or ``noise_sd * sqrt(2 / pi)`` in MAE on average. All randomness is counter-based (Philox) over (seed, site,
client), so a client's own series does not depend on how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.panels.panel import Panel, edge_table
from fedloom.data.ranges import require_ranges

Array = NDArray[np.float64]

SITES = ("place", "gain", "exposure", "chain", "noise", "outage", "shape", "covariate", "parents")


@dataclass(frozen=True)
class Regimes:
    """Settings of the generated panel. Values have no unit; times are in steps unless the name says otherwise."""

    seed: int = 0
    clients: int = 24
    steps: int = 3000
    interval_minutes: int = 15
    start: str = "2024-01-01"
    regimes: int = 4
    exposure: float = 1.0  # Dirichlet concentration of the regimes' shares; the smaller the more unequal the clients
    dwell: int = 48  # mean stay in one regime
    contrast: float = 10.0  # spread of the regimes' levels and shapes
    daily: float = 8.0  # amplitude of the daily pattern that holds in every regime
    weekly: float = 4.0  # drop at weekends
    covariate: float = 3.0  # effect of one standard deviation of the shared covariate
    noise_sd: float = 2.0
    parents: int = 2  # clients whose past reaches a client
    strength: float = 0.5  # share of their deviation that arrives; 0 leaves the graph without influence
    lag: int = 12
    missing_share: float = 0.02
    missing_run: int = 4  # length of an outage

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        ranges = {
            "clients": (1, 100_000),
            "steps": (2, 10_000_000),
            "interval_minutes": (1, 1440),
            "regimes": (1, 100),
            "exposure": (1e-3, 1e6),
            "dwell": (2, self.steps),
            "noise_sd": (0, 1e6),
            "parents": (0, self.clients - 1),
            "strength": (0, 0.95),
            "lag": (1, self.steps),
            "missing_share": (0, 0.9),
            "missing_run": (1, self.steps),
        }
        require_ranges("regimes", self, ranges)


def generate(settings: Regimes, dataset: str = "regimes") -> Panel:
    """Return the panel with its truth; the same settings give the same panel to the last bit."""
    stamps = pd.date_range(
        settings.start, periods=settings.steps, freq=f"{settings.interval_minutes}min", name="timestamp", unit="ns"
    )
    ids = [f"c{i:03d}" for i in range(settings.clients)]
    place, influence = _graph(settings)
    regime = np.stack([_chain(settings, i) for i in range(settings.clients)], axis=1)
    covariate = _covariate(settings)
    calendar = _calendar(settings, stamps) + settings.covariate * covariate[:, None]
    own = _regime_shapes(settings, stamps, regime)
    noise = np.stack([_rng(settings, "noise", i).normal(0, settings.noise_sd, settings.steps) for i in range(len(ids))])
    deviation, signal = np.zeros_like(own), np.zeros_like(own)
    for t in range(settings.steps):
        arrived = deviation[t - settings.lag] @ influence if t >= settings.lag else 0.0
        signal[t] = own[t] + settings.strength * arrived
        deviation[t] = signal[t] + noise[:, t]
    values = (deviation + calendar).astype(np.float32)
    values[_outages(settings)] = np.nan
    src, dst = np.nonzero(influence)
    return Panel(
        values=pd.DataFrame(values, index=stamps, columns=ids),
        nodes=pd.DataFrame(place, index=pd.Index(ids, name="id"), columns=["lat", "lon"]),
        edges=edge_table([ids[j] for j in src], [ids[i] for i in dst], influence[src, dst]),
        features=pd.DataFrame({"covariate": covariate.astype(np.float32)}, index=stamps),
        truth=_truth(regime, signal + calendar, ids, stamps),
        about={
            "dataset": dataset,
            "part": None,
            "unit": "",
            "interval_minutes": settings.interval_minutes,
            "missing_literal": None,
            "rows": settings.steps,
            "nodes": settings.clients,
            "missing_share": float(np.isnan(values).mean()),
            "repairs": {},
            "best_rmse": settings.noise_sd,
            "best_mae": settings.noise_sd * float(np.sqrt(2 / np.pi)),
        },
    )


def _rng(settings: Regimes, site: str, client: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=settings.seed, counter=[0, 0, SITES.index(site), client]))


def _truth(regime: NDArray[np.int64], signal: Array, ids: list[str], stamps: pd.DatetimeIndex) -> pd.DataFrame:
    states = pd.DataFrame(regime.astype(np.int16), index=stamps, columns=[f"regime/{i}" for i in ids])
    signals = pd.DataFrame(signal.astype(np.float32), index=stamps, columns=[f"signal/{i}" for i in ids])
    return pd.concat([states, signals], axis=1)


def _graph(settings: Regimes) -> tuple[Array, Array]:
    """Return places [N, 2] (degrees) and influence [N, N], row = source; the weights that reach a client sum to 1."""
    n = settings.clients
    place = np.array([48.0, 11.0]) + np.stack([_rng(settings, "place", i).uniform(0, 0.3, 2) for i in range(n)])
    distance = np.linalg.norm(place[:, None] - place[None], axis=-1)
    influence = np.zeros((n, n))
    for i in range(n):
        near = np.argsort(distance[i], kind="stable")[1 : 2 * settings.parents + 1]
        rng = _rng(settings, "parents", i)
        chosen = rng.choice(near, size=min(settings.parents, len(near)), replace=False)
        weight = rng.uniform(0.5, 1.0, len(chosen))
        influence[chosen, i] = weight / weight.sum() if len(chosen) else 0.0
    return place, influence


def _chain(settings: Regimes, client: int) -> NDArray[np.int64]:
    """Return the regime [T] of one client: stays of at least half the mean, the next regime drawn by its share."""
    rng = _rng(settings, "chain", client)
    share = _rng(settings, "exposure", client).dirichlet(np.full(settings.regimes, settings.exposure))
    half = max(1, settings.dwell // 2)
    states: list[int] = []
    lengths: list[int] = []
    while sum(lengths) < settings.steps:
        states.append(int(rng.choice(settings.regimes, p=share)))
        lengths.append(half + int(rng.geometric(1 / half)))
    return np.repeat(states, lengths)[: settings.steps]


def _clock(stamps: pd.DatetimeIndex) -> tuple[Array, NDArray[np.bool_]]:
    day = np.asarray((stamps.hour * 60 + stamps.minute) / 1440, dtype=np.float64)
    return day, np.asarray(stamps.day_of_week >= 5)


def _calendar(settings: Regimes, stamps: pd.DatetimeIndex) -> Array:
    """Return what the calendar alone says, [T, N]: a level, a daily wave and a weekend drop of every client's own."""
    day, weekend = _clock(stamps)
    columns = []
    for i in range(settings.clients):
        level, gain, phase = _rng(settings, "gain", i).uniform([40, 0.7, -0.05], [60, 1.3, 0.05])
        wave = np.sin(2 * np.pi * (day - 0.25 + phase))
        columns.append(level + gain * (settings.daily * wave - settings.weekly * weekend))
    return np.stack(columns, axis=1)


def _regime_shapes(settings: Regimes, stamps: pd.DatetimeIndex, regime: NDArray[np.int64]) -> Array:
    """Return each regime's level and daily shape where it holds, [T, N]; shapes are shared by all clients."""
    day, _ = _clock(stamps)
    rng = _rng(settings, "shape")
    levels = np.linspace(-1, 1, settings.regimes) if settings.regimes > 1 else np.zeros(1)
    waves, phases = 1 + rng.integers(0, 4, settings.regimes), rng.uniform(0, 1, settings.regimes)
    shapes = levels[:, None] + 0.5 * np.sin(2 * np.pi * (waves[:, None] * day + phases[:, None]))
    return settings.contrast * np.take_along_axis(shapes.T, regime, axis=1)


def _covariate(settings: Regimes) -> Array:
    """Return a slow random series [T] of mean 0 and standard deviation 1, as weather is."""
    shocks = _rng(settings, "covariate").normal(size=settings.steps)
    series = pd.Series(shocks).ewm(halflife=24).mean().to_numpy(dtype=np.float64)
    return (series - series.mean()) / series.std()


def _outages(settings: Regimes) -> NDArray[np.bool_]:
    mask = np.zeros((settings.steps, settings.clients), dtype=bool)
    runs = round(settings.missing_share * settings.steps / settings.missing_run)
    for i in range(settings.clients):
        slots = _rng(settings, "outage", i).permutation(settings.steps // settings.missing_run)[:runs]
        steps = slots[:, None] * settings.missing_run + np.arange(settings.missing_run)
        mask[steps.ravel(), i] = True
    return mask
