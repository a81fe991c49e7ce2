"""Windows to look at: one filled in of every domain, one foretold of every held-out set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedloom.evaluation.series.foresee import Fill, rollout
from fedloom.evaluation.series.interpolation import linear_interpolation
from fedloom.evaluation.series.masks import hide_tokens
from fedloom.evaluation.series.reconstruction import Predict
from fedloom.evaluation.series.targets import Channel, horizons
from fedloom.evaluation.series.windows import cut, origins
from fedloom.federation.tasks.series import SeriesTask

Arrays = dict[str, NDArray[Any]]
RATE = 0.5


def filled(task: SeriesTask, predict: Predict, domains: Mapping[str, str]) -> Arrays:
    """Return ``fill/{domain}/{x, seen, hidden, found, line}`` [L] of a test window of each domain.

    It is the fully observed window with the lowest key of the domain's first client that has one. Clients that windows
    of all kinds were dealt to have no domain.
    """
    found: Arrays = {}
    for position, client in enumerate(task.ids):
        domain = client if client in domains.values() else domains.get(client)
        name = f"fill/{domain}"
        if domain is None or f"{name}/x" in found or not int(task.sizes("test")[position]):
            continue
        rows = torch.tensor([position], device=task.device)
        numbers = torch.arange(int(task.sizes("test")[position]), device=task.device)[None]
        keys = task.window_keys("test", rows, numbers)
        batch = task.batch("test", rows, numbers)
        holes = (batch.seen[0] == 0).sum(1)
        chosen = int(np.lexsort((keys[0].cpu().numpy(), holes.cpu().numpy()))[0])
        one = type(batch)(*(values[:, chosen : chosen + 1] for values in batch))
        asked, scored = hide_tokens(one, keys[:, chosen : chosen + 1], RATE)
        visible = (asked.seen > 0) & ~scored
        values = {
            "x": one.x,
            "seen": one.seen,
            "hidden": scored.to(one.x.dtype),
            "found": predict(asked, rows),
            "line": linear_interpolation(asked.x[0], visible[0])[None],
        }
        found |= {f"{name}/{key}": value[0, 0].float().cpu().numpy() for key, value in values.items()}
    return found


def foretold(fill: Fill, sets: Mapping[str, Sequence[Channel]], length: int, patch: int) -> Arrays:
    """Return ``forecast/{set}/{past, truth, found}`` of the middle test window of each set's last channel.

    The last channel is the one that benchmarks forecast by itself; the horizon is the set's shortest.
    """
    found: Arrays = {}
    for name, channels in sets.items():
        channel, horizon = channels[-1], horizons(channels)[0]
        at = origins(channel, "test", horizon, 3)
        if not len(at):
            continue
        one = cut(channel, at[len(at) // 2 : len(at) // 2 + 1], length, horizon)
        values = {
            "past": one.past,
            "truth": one.future,
            "found": rollout(fill, one.x, one.seen, horizon, patch),
        }
        found |= {f"forecast/{name}/{key}": value[0].float().cpu().numpy() for key, value in values.items()}
    return found
