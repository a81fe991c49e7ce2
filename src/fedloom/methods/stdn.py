"""STDN: codes of place and time split readings into a trend and a seasonal part, over a graph that turns with the day.

"Spatiotemporal-aware Trend-Seasonality Decomposition Network for Traffic Flow Forecasting", AAAI 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, leaky_relu, one_hot

from fedloom.errors import InputError
from fedloom.federation.central import Central, Centre, Learning, Scene, dropped
from fedloom.federation.method import Noise, Phase, Step
from fedloom.federation.optim import Adam, stepped
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask
from fedloom.models.layers.decomposition import Mapped, PointAttention, SlotGraph, StepGRU, positions, walked
from fedloom.models.layers.graph import panel_graph


def normed(x: Tensor) -> Tensor:
    """The last axis with mean 0 and variance 1."""
    return layer_norm(x, x.shape[-1:])


class StdnNet(nn.Module):
    """Scenes to forecasts [N, B, H]: encoded step by step, and decoded from as many of the newest states as are asked.

    The authors' code is for horizons as long as the history. It normalises its very forecasts by the batch, so that
    those of every batch have one mean: the last map here is a plain one. It takes the width of a head for the number
    of heads and divides scores by the root of 8: here by that of their width, 16, as the paper has it.
    """

    places: Tensor

    def __init__(self, task: ForecastTask, params: Stdn.Params) -> None:
        super().__init__()
        if task.horizon > task.history:
            raise InputError(f"partition: horizon: expected at most the history's {task.history}, found {task.horizon}")
        nodes, width = len(task.ids), params.width
        self.slots_per_day, self.horizon, self.params = task.slots_per_day, task.horizon, params
        spread = params.graph == "both"
        places = positions(panel_graph(task), params.codes) if spread else torch.zeros(nodes, params.codes)
        self.register_buffer("places", places, persistent=False)
        self.read = nn.ModuleList([Mapped(1, width), Mapped(width, width)])
        self.graph = SlotGraph(nodes, task.slots_per_day, width) if spread else None
        self.mixed = Mapped((1 + params.order if spread else 1) * width, width)
        self.near, self.place = nn.Linear(params.codes, params.codes), nn.Linear(params.codes, width)
        self.clock = nn.ModuleList(Mapped(i, width) for i in (task.slots_per_day + DAYS_PER_WEEK, width, width))
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.encoder = nn.ModuleList(StepGRU(width, task.history) for _ in range(2))
        self.decoder = nn.ModuleList(
            PointAttention(nodes, params.points, width, params.heads) for _ in range(params.layers)
        )
        self.hidden, self.output = Mapped(width, width), nn.Linear(width, 1)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def times(self, scene: Scene, learning: Learning | None) -> Tensor:
        """Codes [B, T + H, D] of all steps that are read or forecast."""
        now_B = scene.weekday_BT[:, -1] * self.slots_per_day + scene.slot_BT[:, -1]
        ahead = torch.arange(1 - scene.slot_BT.shape[1], self.horizon + 1, device=now_B.device)
        then = (now_B[:, None] + ahead) % (DAYS_PER_WEEK * self.slots_per_day)
        hot = one_hot(then % self.slots_per_day, self.slots_per_day), one_hot(then // self.slots_per_day, DAYS_PER_WEEK)
        first, second, last = self.clock
        code = torch.relu(first(torch.cat(hot, -1).to(scene.x_NBT.dtype), learning))
        return torch.sin(torch.sigmoid(last(torch.relu(second(code, learning)), learning)))

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        history = scene.x_NBT.shape[2]
        first, second = self.read
        x = second(torch.relu(first(scene.x_NBT[..., None], learning)), learning)
        if self.graph is not None:
            x = walked(x, self.graph(scene.slot_BT[:, 0]), self.params.order)
        x = dropped(torch.relu(self.mixed(x, learning)), learning, "mixed", self.params.dropout)
        place_ND = torch.sigmoid(normed(self.place(leaky_relu(normed(self.near(self.places))))))
        time_BTD = self.times(scene, learning)
        trend = x * (time_BTD[:, :history] + place_ND[:, None, None])
        h = scene.x_NBT.new_zeros(())
        for part, encoder, given in zip(self.parts, self.encoder, (trend, x - trend), strict=True):
            h = h + encoder(normed(part(given) + given))
        h = h[:, :, -self.horizon :]
        code = torch.cat([time_BTD[:, history:].expand_as(h), place_ND[:, None, None].expand_as(h)], -1)
        for decoder in self.decoder:
            h = decoder(h, code, learning)
        return self.output(torch.relu(self.hidden(h, learning)))[..., 0]


class Stdn(Central):
    """One network that decomposes readings by learnt codes; the authors' loss has no mask."""

    name = "stdn"
    cite = "Cao et al., Spatiotemporal-aware Trend-Seasonality Decomposition Network, AAAI 2025"

    @dataclass(frozen=True)
    class Params:
        """The settings of the authors' code; their training is one of 200 epochs."""

        lr: float = 1e-3  # Adam
        decay: float = 0.9  # of the rate between stages
        stages: int = 20  # equal parts of the training; of 10 epochs each
        width: int = 128
        heads: int = 8  # of 16 numbers
        order: int = 3  # steps over the graph
        codes: int = 32  # eigenvectors of the Laplacian
        points: int = 3  # of each node in an attention
        layers: int = 2  # of the decoder
        dropout: float = 0.3  # behind the graph
        graph: Literal["both", "none"] = "both"  # learnt for mixing, the panel's for places; or neither

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return Centre(task, StdnNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on the mean absolute error."""
        milestones = [stage / self.params.stages for stage in range(1, self.params.stages)]
        rate = stepped(self.params.lr, milestones, self.params.decay, phase.progress)
        noise = {"mixed": Noise(("history", self.params.width), "uniform")}
        return (Step(self.loss, Adam(rate), noise=noise if self.params.dropout else {}),)
