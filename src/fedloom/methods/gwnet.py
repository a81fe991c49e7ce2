"""Graph WaveNet: dilated gated convolutions over time, diffusion over the roads and over a graph that is learnt.

"Graph WaveNet for Deep Spatial-Temporal Graph Modeling", IJCAI 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fedloom.federation.central import Central, Centre, Learning, Scene, dropped
from fedloom.federation.method import Noise, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.models.layers.graph import DiffusionConv, adaptive, both_directions, panel_graph, powers
from fedloom.models.layers.norm import BatchNorm

Graph = Literal["both", "panel", "adaptive", "none"]


class GraphWaveNet(nn.Module):
    """Scenes to forecasts [N, B, H] (Sec. 3.4, Fig. 3); the newest readings of the receptive field are read.

    As in the authors' code each layer holds an affine map that takes the place of its graph convolution where there is
    no graph, and the last layer a graph convolution and a normalisation that nothing reads: all are counted.
    """

    fixed: Tensor

    def __init__(self, task: ForecastTask, params: Gwnet.Params) -> None:
        super().__init__()
        self.slots_per_day, self.dropout, self.order = task.slots_per_day, params.dropout, params.order
        self.dilations, width = dilations(params), params.channels
        roads, self.learnt = params.graph in ("both", "panel"), params.graph in ("both", "adaptive")
        walks = both_directions(panel_graph(task)) if roads else torch.empty(0, len(task.ids), len(task.ids))
        self.register_buffer("fixed", powers(walks, params.order), persistent=False)
        if self.learnt:
            self.source = nn.Parameter(torch.randn(len(task.ids), params.embedding))
            self.target = nn.Parameter(torch.randn(len(task.ids), params.embedding))
        supports = len(self.fixed) + (params.order if self.learnt else 0)
        layers = range(len(self.dilations))
        self.start = nn.Linear(2, width)
        self.gated = nn.ModuleList(nn.Linear(2 * width, 2 * width) for _ in layers)
        self.skip = nn.ModuleList(nn.Linear(width, params.skip) for _ in layers)
        self.graph = nn.ModuleList(DiffusionConv(width, width, supports) for _ in layers if supports)
        self.alone = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        self.norm = nn.ModuleList(BatchNorm(width) for _ in layers)
        self.hidden, self.output = nn.Linear(params.skip, params.end), nn.Linear(params.end, task.horizon)

    def supports(self) -> Tensor:
        """Powers of the walks along the roads, against them, and of the learnt one (Eq. 6), [S, N, N]."""
        if not self.learnt:
            return self.fixed
        return torch.cat([self.fixed, powers(adaptive(self.source, self.target)[None], self.order)])

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        clock_BT = (scene.slot_BT / self.slots_per_day).to(scene.x_NBT.dtype)
        read_NBTF = torch.stack([scene.x_NBT, clock_BT.expand_as(scene.x_NBT)], -1)
        field = 1 + sum(self.dilations)
        x = self.start(pad(read_NBTF, (0, 0, max(0, field - read_NBTF.shape[2]), 0))[:, :, -field:])
        supports, skipped = self.supports(), scene.x_NBT.new_zeros(())
        for layer, dilation in enumerate(self.dilations):
            signal, gate = self.gated[layer](torch.cat([x[:, :, :-dilation], x[:, :, dilation:]], -1)).chunk(2, -1)
            z = torch.tanh(signal) * torch.sigmoid(gate)
            skipped = skipped + self.skip[layer](z[:, :, -1])
            if layer == len(self.dilations) - 1:
                break
            mixed = self.alone[layer](z)
            if len(self.graph):
                mixed = dropped(self.graph[layer](z, supports), learning, f"layer {layer}", self.dropout)
            x = self.norm[layer](mixed + x[:, :, dilation:], learning)
        return self.output(torch.relu(self.hidden(torch.relu(skipped))))


class Gwnet(Central):
    """One network of dilated and graph convolutions reads all nodes (Sec. 3)."""

    name = "gwnet"
    cite = "Wu et al., Graph WaveNet for Deep Spatial-Temporal Graph Modeling, IJCAI 2019"

    @dataclass(frozen=True)
    class Params:
        """The authors' settings."""

        lr: float = 1e-3  # Adam, Sec. 4.2
        l2: float = 1e-4  # authors' code
        clip: float = 5.0  # authors' code
        channels: int = 32  # authors' code
        skip: int = 256  # authors' code
        end: int = 512  # authors' code
        blocks: int = 4  # of two layers, dilated by 1 and 2, Sec. 4.2
        order: int = 2  # K of the diffusion, Sec. 4.2
        embedding: int = 10  # of the node vectors, Sec. 4.2
        dropout: float = 0.3  # Sec. 4.2
        graph: Graph = "both"  # which supports; `none` is the same network without a graph

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return Centre(task, GraphWaveNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on the mean absolute error; every element of a graph convolution's result may be dropped."""
        noise, left = {}, 1 + sum(dilations(self.params))
        for layer, dilation in enumerate(dilations(self.params)[:-1]):
            left -= dilation
            noise[f"layer {layer}"] = Noise((left, self.params.channels), "uniform")
        dropping = self.params.dropout and self.params.graph != "none"
        adam = Adam(self.params.lr, clip=self.params.clip, l2=self.params.l2)
        return (Step(self.loss, adam, noise=noise if dropping else {}),)


def dilations(params: Gwnet.Params) -> list[int]:
    """Dilation of every layer, in order."""
    return [1, 2] * params.blocks
