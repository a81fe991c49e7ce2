"""STID: tables for node, time of day and weekday beside the window, and a residual MLP; no graph.

"Spatial-Temporal Identity: A Simple yet Effective Baseline for Multivariate Time Series Forecasting", CIKM 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.central import Central, Centre, Learning, Scene, dropped
from fedloom.federation.method import Noise, Phase, Step
from fedloom.federation.optim import Adam, stepped
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask


def table(rows: int, width: int) -> nn.Parameter:
    """A table of vectors, Xavier uniform."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, width)))


class StidNet(nn.Module):
    """Scenes to forecasts [N, B, H]; the calendar tables are read at the last input step (Sec. 3.1)."""

    def __init__(self, task: ForecastTask, params: Stid.Params) -> None:
        super().__init__()
        width = 4 * params.width
        self.slots_per_day, self.dropout = task.slots_per_day, params.dropout
        self.window = nn.Linear(3 * task.history, params.width)
        self.node, self.weekday = table(len(task.ids), params.width), table(DAYS_PER_WEEK, params.width)
        self.slot = table(task.slots_per_day, params.width)
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(params.depth))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(params.depth))
        self.output = nn.Linear(width, task.horizon)

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        clock = [scene.slot_BT / self.slots_per_day, scene.weekday_BT / DAYS_PER_WEEK]
        read = [scene.x_NBT, *(c.to(scene.x_NBT.dtype).expand_as(scene.x_NBT) for c in clock)]
        code_NBD = self.window(torch.cat(read, -1))
        shared = self.slot[scene.slot_BT[:, -1]], self.weekday[scene.weekday_BT[:, -1]]
        h_NBD = torch.cat([code_NBD, *(t.expand_as(code_NBD) for t in (self.node[:, None], *shared))], -1)
        for depth, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            h_NBD = h_NBD + outer(dropped(torch.relu(inner(h_NBD)), learning, f"block {depth}", self.dropout))
        return self.output(h_NBD)


class Stid(Central):
    """One MLP that tells nodes and times apart by learnt vectors (Sec. 3)."""

    name = "stid"
    cite = "Shao et al., Spatial-Temporal Identity, CIKM 2022"

    @dataclass(frozen=True)
    class Params:
        """The authors' settings; milestones are shares of the training, here of their 100 epochs in BasicTS."""

        lr: float = 2e-3  # Adam; authors' code
        l2: float = 1e-4  # authors' code
        milestones: tuple[float, ...] = (0.01, 0.5, 0.8)  # the rate is halved; authors' code
        clip: float = 5.0  # BasicTS
        width: int = 32  # of window code and each table, Sec. 4.1
        depth: int = 3  # residual blocks, Sec. 4.1
        dropout: float = 0.15  # authors' code

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return Centre(task, StidNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on the mean absolute error."""
        rate = stepped(self.params.lr, self.params.milestones, 0.5, phase.progress)
        noise = {f"block {i}": Noise((4 * self.params.width,), "uniform") for i in range(self.params.depth)}
        adam = Adam(rate, clip=self.params.clip, l2=self.params.l2)
        return (Step(self.loss, adam, noise=noise if self.params.dropout else {}),)
