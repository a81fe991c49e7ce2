"""Does a shared prototype lean on a spurious feature? The simulation behind Proposition 1 (Atlas, Sec. 4.3, Figure 3).

Client k forecasts y from u = (x, s), s = c_k y + noise, through one prototype p in R^2: a_k (u . p) + b_k. Confounding
c_k = mean +- spread is as often above its mean as below. Leakage is |p_s| / |p|: 0 where p looks at x alone, 1 where it
looks at s alone. Three lines: p learned by federated rounds, the best shared p, and each client's own best p.

All three minimise mean squared errors, which depend on the samples through their second moments alone, so that clients
are simulated by these: exactly what full-batch steps on the samples would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ANGLE_STEP = 0.125  # degrees between the directions among which the best shared one is searched


@dataclass(frozen=True)
class Confounding:
    """How the simulation runs; what the paper does not print is ours, and marked so."""

    clients: int = 30  # Sec. 4.3
    samples: int = 2000  # Sec. 4.3
    trials: int = 5  # Sec. 4.3
    rounds: int = 60  # Sec. 4.3
    steps: int = 20  # ours: full-batch steps a round
    lr: float = 0.02  # ours
    noise: float = 2.0  # sigma_xi, Sec. 4.3
    means: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # c bar, Figure 3a
    spread: float = 0.5  # delta, Figure 3a
    spreads: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)  # delta, Figure 3b, where c bar is 0
    scales: tuple[float, ...] = (1.0, 2.0, 4.0)  # ours: the deviation of x and y, on which everything depends
    correlations: tuple[float, ...] = (0.8, 0.9, 0.95)  # ours: of x and y in Gaussian data

    def __post_init__(self) -> None:
        for name in ("clients", "samples", "trials", "rounds", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, found {getattr(self, name)}")

    @property
    def points(self) -> list[tuple[float, float]]:
        """Mean and spread of each point of the two panels, each once."""
        return list(dict.fromkeys([(mean, self.spread) for mean in self.means] + [(0.0, s) for s in self.spreads]))


class Client(NamedTuple):
    """Standardised means of inputs and of targets over windows: x and y, [S] each."""

    x: Floats
    y: Floats


class Leakage(NamedTuple):
    """Leakage at every point [P]: of the federated, of the best shared prototype, mean over clients on their own."""

    federated: Floats
    optimum: Floats
    alone: Floats


def simulate(clients: list[Client], settings: Confounding, scale: float, seed: tuple[int, ...]) -> Leakage:
    """Return the leakage of one trial at ``settings.points``.

    ``clients`` are an even number; ``scale`` is the deviation of x and y beside that of the noise. ``seed`` draws the
    noise, who is confounded upwards, and the prototype's start.
    """
    random = np.random.default_rng(seed)
    signs_C = random.permutation(np.repeat([1.0, -1.0], len(clients) // 2))
    moments_C44 = np.stack([_moments(client, random.normal(size=len(client.x))) for client in clients])
    mean_P, spread_P = np.array(settings.points).T
    c_PC = mean_P[:, None] + spread_P[:, None] * signs_C
    # Both features and the target in units of ``scale``: directions, and so leakage, stay as they are.
    maps = np.zeros((*c_PC.shape, 3, 4))
    maps[..., 0, 0], maps[..., 1, 1], maps[..., 1, 2], maps[..., 2, 3] = 1.0, c_PC, settings.noise / scale, 1.0
    gram = maps @ moments_C44 @ maps.swapaxes(-1, -2)  # of (x, s, 1)
    cross = (maps @ moments_C44)[..., 1]  # of (x, s, 1) with y
    start = np.array([0.7, 0.7]) + 0.1 * random.normal(size=2)
    return Leakage(_federated(gram, cross, start, settings), _optimum(gram, cross), _alone(gram, cross))


def gaussian_clients(settings: Confounding, correlation: float, seed: tuple[int, ...]) -> list[Client]:
    """Return clients whose x and y are standard normal with this correlation."""
    random = np.random.default_rng(seed)
    return [_gaussian(random, settings.samples, correlation) for _ in range(2 * (settings.clients // 2))]


def correlations(clients: list[Client]) -> Floats:
    """Return the correlation of x and y at each client, [C]."""
    return np.array([float(np.corrcoef(client.x, client.y)[0, 1]) for client in clients])


def _gaussian(random: np.random.Generator, samples: int, correlation: float) -> Client:
    x, other = random.normal(size=(2, samples))
    return Client(x, correlation * x + np.sqrt(1 - correlation**2) * other)


def _moments(client: Client, noise: Floats) -> Floats:
    """Second moments [4, 4] of (x, y, noise, 1)."""
    rows = np.stack([client.x, client.y, noise, np.ones_like(noise)])
    return np.asarray(rows @ rows.T / len(noise))


def leakage_of(prototype: Floats) -> Floats:
    """Return |p_s| / |p| of prototypes [..., 2]."""
    return np.asarray(np.abs(prototype[..., 1]) / np.linalg.norm(prototype, axis=-1))


def _alone(gram: Floats, cross: Floats) -> Floats:
    """Least squares of every client, to which local training converges."""
    own = np.asarray(np.linalg.solve(gram, cross[..., None])[..., 0], dtype=np.float64)
    return np.asarray(leakage_of(own[..., :2]).mean(-1))


def _optimum(gram: Floats, cross: Floats) -> Floats:
    """The best direction of all, at each of which every client's a and b have a closed form."""
    mean = gram[..., :2, 2]
    spread = gram[..., :2, :2] - mean[..., :, None] * mean[..., None, :]
    along = cross[..., :2] - mean * cross[..., 2:]
    angle = np.deg2rad(np.arange(-90 + ANGLE_STEP, 90 + ANGLE_STEP / 2, ANGLE_STEP))
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    explained = (along @ directions.T) ** 2 / np.einsum("pcij,ai,aj->pca", spread, directions, directions)
    return leakage_of(directions[explained.sum(1).argmax(-1)])


def _federated(gram: Floats, cross: Floats, start: Floats, settings: Confounding) -> Floats:
    """Rounds of gradient steps on p_k, a_k, b_k, after which the p_k are averaged; a_k and b_k stay with clients.

    (p, a) and (-p, -a), or (2 p, a / 2), forecast alike: before the mean each p_k is made as long as the others and
    turned to the side of the shared one, and its a_k answers for it.
    """
    clients = cross.shape[1]
    a, b = np.ones((len(cross), clients)), np.zeros((len(cross), clients))
    shared = np.broadcast_to(start, (len(cross), 2))
    for _ in range(settings.rounds):
        p = np.repeat(shared[:, None], clients, axis=1)
        for _ in range(settings.steps):
            weights = np.concatenate([a[..., None] * p, b[..., None]], axis=-1)
            slope = 2 * (np.einsum("pcij,pcj->pci", gram, weights) - cross)
            a, b, p = (
                a - settings.lr * (slope[..., :2] * p).sum(-1),
                b - settings.lr * slope[..., 2],
                p - settings.lr * a[..., None] * slope[..., :2],
            )
        side = np.where((p * shared[:, None]).sum(-1) < 0, -1.0, 1.0)
        length = side * np.linalg.norm(p, axis=-1)
        a, p = a * length, p / length[..., None]
        shared = p.mean(1)
    return leakage_of(shared)
