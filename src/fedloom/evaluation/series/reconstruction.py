"""How well hidden stretches of test windows are filled in, at five rates of hiding.

Errors are averaged over the hidden observed points of a window, over a client's windows, over clients, over rates:
every window, client and rate counts the same, however long or many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.evaluation.rows import Row, client_rows, condition
from fedloom.evaluation.series.interpolation import FILLS
from fedloom.evaluation.series.masks import RATES, hide_tokens
from fedloom.federation.masking import visible_scale
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows

Floats = NDArray[np.float64]
Predict = Callable[[SeriesWindows, Tensor], Tensor]
"""(windows of clients [c, B, ...], clients [c]) -> filled windows [c, B, L]."""

SPACES = ("z", "normalised")
"""z: by the training part of the series. normalised: by mean and deviation of what is visible of a window."""

METRICS = ("mse", "mae")
OWN = "own"
NOTHING = "no hidden observed point"


class Sums:
    """Sums over windows [C] of each window's mean error, by space and metric, and the windows behind them."""

    def __init__(self, clients: int, device: torch.device) -> None:
        self.total = torch.zeros(clients, len(SPACES), len(METRICS), dtype=torch.float64, device=device)
        self.count = torch.zeros(clients, dtype=torch.float64, device=device)

    def add(self, found: Tensor, x: Tensor, scored: Tensor, visible: Tensor, rows: Tensor) -> None:
        """Add the errors of ``found`` [c, B, L] against ``x`` at the points ``scored``, of clients ``rows`` [c].

        ``visible`` are the points that give a window its scale.
        """
        error = (found.to(torch.float64) - x).masked_fill(~scored, 0)
        _, sd = visible_scale(x.to(torch.float64), visible.to(torch.float64))
        points = scored.sum(-1)
        by_space = torch.stack([error, error / sd], 2)
        mean = (
            torch.stack([by_space.square().sum(-1), by_space.abs().sum(-1)], -1) / points.clamp(min=1)[..., None, None]
        )
        self.total.index_add_(0, rows, mean.sum(1))
        self.count.index_add_(0, rows, (points > 0).to(torch.float64).sum(1))

    def means(self) -> Floats:
        """Return means over windows [C, spaces, metrics], NaN for a client without one."""
        count = self.count.cpu().numpy()
        total = self.total.cpu().numpy()
        found: Floats = total / np.where(count > 0, count, np.nan)[:, None, None]
        return found


def reconstruct(
    task: SeriesTask, predict: Mapping[str | None, Predict], chunk: int
) -> dict[tuple[str | None, float], Sums]:
    """Return error sums of every way to fill in, and of the reference rows, by (name, rate), on the test part.

    ``predict`` maps a name (None for the method itself) to what fills in; ``chunk`` tokens of windows at a time.
    """
    names = [*predict, *FILLS]
    sums = {(name, rate): Sums(len(task.ids), task.device) for name in names for rate in RATES}
    for rows, numbers in task.chunks("test", chunk):
        batch = task.batch("test", rows, numbers)
        keys = task.window_keys("test", rows, numbers)
        for rate in RATES:
            asked, scored = hide_tokens(batch, keys, rate)
            visible = (asked.seen > 0) & ~scored
            for name, fill in predict.items():
                sums[name, rate].add(fill(asked, rows), batch.x, scored, visible, rows)
            for name, interpolate in FILLS.items():
                found = interpolate(asked.x.flatten(0, 1), visible.flatten(0, 1)).view_as(batch.x)
                sums[name, rate].add(found, batch.x, scored, visible, rows)
    return sums


def reconstruction_rows(sums: Mapping[tuple[str | None, float], Sums], clients: Sequence[str]) -> list[Row]:
    """Return rows ``mse`` and ``mae`` of every client and their mean, by rate and as a mean over rates."""
    rows = []
    names, rates = list(dict.fromkeys(n for n, _ in sums)), list(dict.fromkeys(r for _, r in sums))
    for name in names:
        found = {rate: sums[name, rate].means() for rate in rates}
        counts = {rate: sums[name, rate].count.cpu().numpy() for rate in rates}
        values = [*found.items(), (None, np.mean(list(found.values()), axis=0))]
        for rate, value_CSM in values:
            windows = np.min(list(counts.values()), axis=0) if rate is None else counts[rate]
            for (s, space), (m, metric) in ((a, b) for a in enumerate(SPACES) for b in enumerate(METRICS)):
                under = condition(
                    task="reconstruction",
                    space=space,
                    rate="mean" if rate is None else f"{rate:g}",
                    form=OWN if name == OWN else None,
                    prediction=None if name == OWN else name,
                )
                rows += client_rows(metric, value_CSM[:, s, m].tolist(), windows.tolist(), clients, under, NOTHING)
    return rows
