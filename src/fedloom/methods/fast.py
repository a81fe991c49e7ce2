"""FaST: experts in parallel, weighed by window, node and clock, and nodes that meet through a few agents; no graph.

"FaST: Efficient and Effective Long-Horizon Forecasting for Large-Scale Spatial-Temporal Graphs via
Mixture-of-Experts", KDD 2026, arXiv 2601.05174.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from fedloom.federation.central import Central, Centre, Learning, Scene, shares
from fedloom.federation.method import Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam, stepped
from fedloom.federation.stack import Bound, StackedBound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.layers.experts import AgentAttention, Experts, RootNorm, Tables, table

SPREAD = 1e-5  # added to a window's variance


class FastNet(nn.Module):
    """Scenes to forecasts [N, B, H]: every window is standardised by its own mean and deviation, and back at the end.

    A missing reading enters these as it was filled; the authors' code takes it for a zero.
    """

    def __init__(self, task: ForecastTask, params: Fast.Params) -> None:
        super().__init__()
        width, layers = params.width, range(params.layers)
        self.embed, self.tables = Experts(task, task.history, width, params.experts), Tables(task, width)
        self.agents = table(params.agents, width) if params.agents else None
        self.attend = nn.ModuleList(AgentAttention(width) for _ in layers if params.agents)
        self.mix = nn.ModuleList(Experts(task, width, width, params.experts) for _ in layers)
        self.norm = nn.ModuleList(RootNorm(width) for _ in layers)
        joined = (1 + params.layers) * width
        self.hidden, self.output = nn.Linear(joined, joined), nn.Linear(joined, task.horizon)

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        variance, mean = torch.var_mean(scene.x_NBT, -1, keepdim=True)
        sd = (variance + SPREAD).sqrt()
        window_NBT = (scene.x_NBT - mean) / sd
        h_NBD = self.embed(window_NBT, window_NBT, scene) + self.tables(scene)
        found = [h_NBD]
        for layer, (mix, norm) in enumerate(zip(self.mix, self.norm, strict=True)):
            if self.agents is not None:
                h_NBD = self.attend[layer](h_NBD, self.agents)
            found.append(mix(h_NBD, window_NBT, scene))
            h_NBD = norm(h_NBD + found[-1])
        return self.output(torch.relu(self.hidden(torch.cat(found, -1)))) * sd + mean


class Fast(Central):
    """One network of experts and agents, whose cost is linear in the nodes.

    The authors' loss counts missing readings as zeros to be forecast; here, as everywhere, they are left out.
    """

    name = "fast"
    cite = "Zhao et al., FaST, KDD 2026"

    @dataclass(frozen=True)
    class Params:
        """The authors' settings; milestones are shares of the training, of their 50 epochs."""

        lr: float = 2e-3  # Adam; authors' code
        l2: float = 1e-4  # authors' code
        milestones: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)  # the rate is halved; authors' code
        clip: float = 5.0  # authors' code
        width: int = 64  # authors' code
        layers: int = 3  # authors' code
        experts: int = 8  # authors' code
        agents: int = 32  # authors' code; 0 is the same network in which nodes do not meet

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return Centre(task, FastNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step."""
        rate = stepped(self.params.lr, self.params.milestones, 0.5, phase.progress)
        return (Step(self.loss, Adam(rate, clip=self.params.clip, l2=self.params.l2)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's part of the mean smooth absolute error, square below one unit of the readings."""
        assert isinstance(model, StackedBound)
        error_CBH, _ = model.one(batch, moment.noise, moment.progress, method="learn")
        return Outcome(shares(smooth_l1_loss(error_CBH, torch.zeros_like(error_CBH), reduction="none"), batch.mask))
