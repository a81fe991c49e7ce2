"""How close what clients upload lies to what they hold: an audit of obfuscation, which is not privacy.

For every uploaded window the distance to the nearest training window of its client; and the success of an attacker
who guesses from such distances which windows were trained on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.evaluation.causal.factual import auc
from fedloom.evaluation.rows import Row, client_rows, condition
from fedloom.federation.masking import visible_scale
from fedloom.federation.tasks.series import SeriesTask

Floats = NDArray[np.float64]

KINDS = ("real", "initial", "learned", "sent")
"""real: training windows among themselves. The others: the core-set before and after matching, and as uploaded."""

MOST = 1024
"""Windows of a client that distances are measured to: those whose key is lowest."""

FEW = "fewer than two windows to compare with"


def audit(task: SeriesTask, core_sets: Mapping[str, Tensor]) -> tuple[list[Row], dict[str, Floats]]:
    """Return rows ``distance`` and ``membership_auc`` by kind, of clients and their mean, and all distances by kind.

    ``core_sets`` maps a kind to core-sets [C, K, L] of normalised windows, and ``size`` to how many rows [C, 1] each
    client has. Distances are root mean squares over a window's points. The attacker is given, beside the core-set, as
    many training as test windows (those of lowest key) and calls the ones nearest to it trained on: 0.5 is a guess.
    """
    distances: dict[str, list[Floats]] = {kind: [] for kind in KINDS}
    auc_of: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for client in range(len(task.ids)):
        train, test = (_windows(task, part, client) for part in ("train", "test"))
        n = min(len(train), len(test))
        size = int(core_sets["size"][client])
        sets = {kind: core_sets[kind][client, :size] for kind in KINDS[1:]} | {"real": train[:size]}
        for kind in KINDS:
            to_train = _distance(sets[kind], train)
            if kind == "real" and len(train):
                to_train.fill_diagonal_(torch.inf)
            near = to_train.min(1).values if to_train.shape[1] > 1 else to_train.new_full((len(to_train),), torch.nan)
            distances[kind].append(near.double().cpu().numpy())
            auc_of[kind].append(_membership(sets[kind], train[:n], test[:n]))
    rows = []
    for kind in KINDS:
        means = [float(d.mean()) if len(d) else np.nan for d in distances[kind]]
        for metric, values in (("distance", means), ("membership_auc", auc_of[kind])):
            under = condition(coreset=kind, task="audit")
            rows += client_rows(metric, values, [1] * len(values), task.ids, under, FEW)
    return rows, {kind: np.concatenate(distances[kind]) for kind in KINDS}


def _windows(task: SeriesTask, part: str, client: int) -> Tensor:
    """Some fully observed windows [n, L] of a client's part, each by its own mean and deviation, in order of key."""
    row = torch.tensor([client], device=task.device)
    numbers = torch.arange(int(task.sizes(part)[client]), device=task.device)[None]
    if not numbers.numel():
        return task.values.new_zeros(0, task.length)
    numbers = numbers[:, task.window_keys(part, row, numbers)[0].argsort()[:MOST]]
    batch = task.batch(part, row, numbers)
    whole = batch.seen[0].amin(1) > 0
    x, seen = batch.x[0][whole], batch.seen[0][whole]
    mean, sd = visible_scale(x, seen)
    return (x - mean) / sd


def _distance(one: Tensor, other: Tensor) -> Tensor:
    """Root mean squared distances [n, m] between windows."""
    return torch.cdist(one, other) / one.shape[-1] ** 0.5


def _membership(core: Tensor, members: Tensor, others: Tensor) -> float:
    """How often a training window lies nearer to the core-set than a test window does; NaN where there is none."""
    if not len(core) or not len(members) or not len(others):
        return float("nan")
    near = torch.cat([_nearest_other(members, core), _nearest_other(others, core)]).double().cpu().numpy()
    member = np.repeat([1.0, 0.0], [len(members), len(others)])
    return auc(-near, member)


def _nearest_other(windows: Tensor, core: Tensor) -> Tensor:
    return _distance(windows, core).min(1).values
