"""The truth behind a generated panel, laid out as the windows of a task are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedloom.data.panels.panel import Panel
from fedloom.errors import InputError
from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.forecast.errors import Scores, metric_rows
from fedloom.evaluation.forecast.regimes import LEVEL, SIGNAL, information_rows, levels
from fedloom.evaluation.forecast.stream import Forecasts


@dataclass(frozen=True)
class Truth:
    """``regime_CS`` (whole numbers) and ``signal_CS`` (the value before noise) of C nodes at S steps."""

    nodes: list[str]
    regime_CS: Tensor
    signal_CS: Tensor

    def signal_at(self, starts_CB: Tensor, history: int, horizon: int) -> Tensor:
        """Return the noiseless signal at the targets of windows that start at ``starts_CB``: [C, B, H]."""
        steps = torch.arange(history, history + horizon)
        at = (starts_CB.cpu()[..., None] + steps).clamp(min=0)
        return self.signal_CS.gather(1, at.flatten(1)).reshape(at.shape)

    def information(self, assignment_CW: Tensor, starts_CW: Tensor, inputs_CS: Tensor, history: int) -> pd.DataFrame:
        """Return metric rows: what the prototype of a window says of the regime at its last input step.

        Beside it what the mean of the window's inputs says, in as many levels for each node as prototypes are
        assigned: prototypes that say no more follow the readings and need no regime. ``assignment_CW`` and
        ``starts_CW`` are -1 where a node has no such window; ``inputs_CS`` are the inputs at all steps.
        """
        starts, assigned = starts_CW.cpu(), assignment_CW.cpu().numpy()
        regime_CW = self.regime_CS.gather(1, (starts + history - 1).clamp(min=0)).masked_fill(starts < 0, -1).numpy()
        mean_CW = inputs_CS.cpu().unfold(1, history, 1).mean(-1).gather(1, starts.clamp(min=0))
        level_CW = levels(mean_CW.numpy(), assigned >= 0, len(np.unique(assigned[assigned >= 0])))
        rows = [information_rows(assigned, regime_CW, self.nodes)]
        return pd.concat([*rows, information_rows(level_CW, regime_CW, self.nodes, LEVEL)], ignore_index=True)


def read_truth(panel: Panel, nodes: list[str]) -> Truth | None:
    """Return the truth of ``nodes``; None for a panel that was measured. InputError where a node's is missing."""
    truth = panel.truth
    if not len(truth.columns):
        return None
    wanted = [f"{kind}/{node}" for kind in ("regime", "signal") for node in nodes]
    missing = [column for column in wanted if column not in truth.columns]
    if missing:
        raise InputError(f"{panel.about['dataset']}: truth: expected a column {missing[0]!r}, found none")
    regime, signal = (truth[[f"{kind}/{node}" for node in nodes]].to_numpy().T for kind in ("regime", "signal"))
    return Truth(nodes, torch.from_numpy(regime.astype(np.int64)), torch.from_numpy(signal.astype(np.float64)))


class BestPossible:
    """Error of the noiseless signal itself, which no forecast can expect to go below."""

    def __init__(self, truth: Truth, horizon: int) -> None:
        self.truth = truth
        self.scores = Scores(len(truth.nodes), horizon, None)

    def add(self, some: Forecasts, starts_CB: Tensor, history: int) -> None:
        """Add the windows of ``some``, which start at ``starts_CB``."""
        signal = self.truth.signal_at(starts_CB, history, some.truth_CBH.shape[2])
        truth_CBH, mask_CBH, window_CB = some.truth_CBH.cpu(), some.mask_CBH.cpu(), some.window_CB.cpu()
        self.scores.add(Forecasts(signal, truth_CBH, mask_CBH, window_CB))

    def rows(self) -> pd.DataFrame:
        """Return metric rows under the condition that the signal is the forecast."""
        rows = metric_rows(self.scores, self.truth.nodes)
        return rows[rows["condition"] == MASKED].assign(condition=SIGNAL)
