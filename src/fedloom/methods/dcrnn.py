"""DCRNN: a recurrent encoder and decoder whose gates are diffusion convolutions over the roads.

"Diffusion Convolutional Recurrent Neural Network: Data-Driven Traffic Forecasting", ICLR 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fedloom.federation.central import Central, Centre, Learning, Scene
from fedloom.federation.method import Noise, Phase, Step
from fedloom.federation.optim import Adam, stepped
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.models.layers.graph import DiffusionConv, both_directions, chebyshev, panel_graph
from fedloom.models.layers.recurrent import told_share


class DiffusionGRU(nn.Module):
    """GRU cell with diffusion convolutions in place of matrix products (Sec. 2.3), nodes first.

    A convolution of [x, h] is the sum of one of x and one of h, so that all steps of x can be diffused at once.
    Weights are Xavier normal by the shape of the joint convolution, biases 1 for the gates and 0 for the candidate.
    """

    def __init__(self, inputs: int, hidden: int, supports: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.read = DiffusionConv(inputs, 3 * hidden, supports)
        self.gates = DiffusionConv(hidden, 2 * hidden, supports, bias=False)
        self.candidate = DiffusionConv(hidden, hidden, supports, bias=False)
        fan_in = (1 + supports) * (inputs + hidden)
        gates_sd, candidate_sd = math.sqrt(2 / (fan_in + 2 * hidden)), math.sqrt(2 / (fan_in + hidden))
        assert self.read.bias is not None
        with torch.no_grad():
            for weight, sd in (
                (self.read.weight[..., : 2 * hidden], gates_sd),
                (self.read.weight[..., 2 * hidden :], candidate_sd),
                (self.gates.weight, gates_sd),
                (self.candidate.weight, candidate_sd),
            ):
                weight.normal_(0, sd)
            self.read.bias[: 2 * hidden] = 1.0
            self.read.bias[2 * hidden :] = 0.0

    def step(self, read_NBG: Tensor, h_NBD: Tensor, supports: Tensor) -> Tensor:
        """The next state [N, B, D] from what ``read`` gives for the input [N, B, 3D] and the state before it."""
        to_gates, to_candidate = read_NBG.split([2 * self.hidden, self.hidden], -1)
        reset, update = torch.sigmoid(to_gates + self.gates(h_NBD, supports)).chunk(2, -1)
        candidate = torch.tanh(to_candidate + self.candidate(reset * h_NBD, supports))
        return torch.lerp(candidate, h_NBD, update)


class DcrnnNet(nn.Module):
    """Scenes to forecasts [N, B, H]: two cells encode, two decode from their states (Sec. 2.3, Fig. 2).

    The decoder's first input is zeros, then its own last forecast or, while it learns, now and then the truth; its
    own, too, where that reading is missing. Diffusion of every direction starts from the input itself, as the paper
    has it; the authors' code goes on from the last step of the direction before.
    """

    supports: Tensor

    def __init__(self, task: ForecastTask, params: Dcrnn.Params) -> None:
        super().__init__()
        self.slots_per_day, self.horizon, self.params = task.slots_per_day, task.horizon, params
        nodes, hidden = len(task.ids), params.hidden
        walks = both_directions(panel_graph(task)) if params.graph == "panel" else torch.empty(0, nodes, nodes)
        self.register_buffer("supports", chebyshev(walks, params.order), persistent=False)
        count = len(self.supports)
        widths = [hidden] * (params.layers - 1)
        self.encoder = nn.ModuleList(DiffusionGRU(width, hidden, count) for width in (2, *widths))
        self.decoder = nn.ModuleList(DiffusionGRU(width, hidden, count) for width in (1, *widths))
        self.output = nn.Linear(hidden, 1)
        nn.init.xavier_normal_(self.output.weight)

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        clock_BT = (scene.slot_BT / self.slots_per_day).to(scene.x_NBT.dtype)
        x_NBTF, states = torch.stack([scene.x_NBT, clock_BT.expand_as(scene.x_NBT)], -1), []
        for cell in self.encoder:
            assert isinstance(cell, DiffusionGRU)
            h_NBD, found = scene.x_NBT.new_zeros((*x_NBTF.shape[:2], self.params.hidden)), []
            for read_NBG in cell.read(x_NBTF, self.supports).unbind(2):
                h_NBD = cell.step(read_NBG, h_NBD, self.supports)
                found.append(h_NBD)
            x_NBTF = torch.stack(found, 2)
            states.append(h_NBD)
        last_NB, forecasts = scene.x_NBT.new_zeros(scene.x_NBT.shape[:2]), []
        if learning is not None:
            share = told_share(last_NB.new_tensor(learning.progress * self.params.batches), self.params.tau)
        for step in range(self.horizon):
            h_NBD = last_NB[..., None]
            for layer, cell in enumerate(self.decoder):
                assert isinstance(cell, DiffusionGRU)
                h_NBD = cell.step(cell.read(h_NBD, self.supports), states[layer], self.supports)
                states[layer] = h_NBD
            last_NB = self.output(h_NBD)[..., 0]
            forecasts.append(last_NB)
            if learning is not None:
                told = learning.draws["told"][0, step] < share
                last_NB = torch.where(told & (scene.mask_NBH[..., step] > 0), scene.y_NBH[..., step], last_NB)
        return torch.stack(forecasts, -1)


class Dcrnn(Central):
    """One sequence-to-sequence network diffuses readings over the roads (Sec. 2)."""

    name = "dcrnn"
    cite = "Li et al., Diffusion Convolutional Recurrent Neural Network, ICLR 2018"

    @dataclass(frozen=True)
    class Params:
        """The authors' settings; milestones are shares of the training, of their 100 epochs."""

        lr: float = 1e-2  # Adam, App. E
        eps: float = 1e-3  # of Adam; authors' code
        milestones: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5)  # a tenth of the rate at each, App. E
        clip: float = 5.0  # authors' code
        hidden: int = 64  # App. E
        layers: int = 2  # App. E
        order: int = 2  # K of the diffusion; authors' code
        tau: float = 2000.0  # of the scheduled sampling, in batches; authors' code
        batches: float = 37_500.0  # of the whole training that tau was set for: METR-LA, 64 windows each, 100 epochs
        graph: Literal["panel", "none"] = "panel"  # `none` is the same network without a graph

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return Centre(task, DcrnnNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step on the mean absolute error; a coin for every step ahead says whether the truth is told."""
        rate = stepped(self.params.lr, self.params.milestones, 0.1, phase.progress)
        coins = {"told": Noise(("horizon",), "uniform", per_sample=False)}
        return (Step(self.loss, Adam(rate, clip=self.params.clip, eps=self.params.eps), noise=coins),)
