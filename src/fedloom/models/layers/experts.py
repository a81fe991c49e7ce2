"""FaST's two parts (Zhao et al., KDD 2026): experts that a router weighs, and attention over nodes by way of agents.

Tensors over nodes have the nodes first, x [N, B, F]; there are K experts and I agents.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedloom.federation.central import Scene
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask

EPSILON = 1e-8  # of the root mean square


def table(rows: int, width: int) -> nn.Parameter:
    """A table of vectors, Xavier uniform."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, width)))


class Tables(nn.Module):
    """A vector for every node, time-of-day slot and weekday; a scene reads their sum at its last input step."""

    def __init__(self, task: ForecastTask, width: int) -> None:
        super().__init__()
        self.node, self.weekday = table(len(task.ids), width), table(DAYS_PER_WEEK, width)
        self.slot = table(task.slots_per_day, width)

    def forward(self, scene: Scene) -> Tensor:
        """Vectors [N, B, D]."""
        clock_BD = self.slot[scene.slot_BT[:, -1]] + self.weekday[scene.weekday_BT[:, -1]]
        return self.node[:, None] + clock_BD


class Experts(nn.Module):
    """Gated linear units of one input, all of which run; weights by window, node and clock add them up."""

    def __init__(self, task: ForecastTask, inputs: int, outputs: int, experts: int) -> None:
        super().__init__()
        self.experts = experts
        self.router, self.tables = nn.Linear(task.history, experts), Tables(task, experts)
        self.units = nn.Linear(inputs, 2 * experts * outputs)

    def forward(self, x_NBF: Tensor, window_NBT: Tensor, scene: Scene) -> Tensor:
        """What the experts make of x, [N, B, D], as the router finds for the windows of the scene."""
        weight_NBK = (self.router(window_NBT) + self.tables(scene)).softmax(-1)
        signal, gate = self.units(x_NBF).chunk(2, -1)
        found_NBKD = (signal * torch.sigmoid(gate)).unflatten(-1, (self.experts, -1))
        return (weight_NBK[..., None, :] @ found_NBKD)[..., 0, :]


class RootNorm(nn.Module):
    """x over its root mean square, to which a small number is added outside the root, times a learnt gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(x.shape[-1]) + EPSILON)


class AgentAttention(nn.Module):
    """A few agents gather from all nodes, all nodes gather from the agents: linear in the nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_node, self.of_agent = nn.Linear(width, 3 * width), nn.Linear(width, 2 * width)
        self.gathered, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.scale = RootNorm(width), math.sqrt(width)

    def forward(self, x_NBD: Tensor, agents_ID: Tensor) -> Tensor:
        """The nodes' vectors with what they gathered, [N, B, D]."""
        x_BND = x_NBD.transpose(0, 1)
        query, key, value = self.of_node(x_BND).chunk(3, -1)
        asked_ID, known_ID = (self.of_agent(agents_ID) / self.scale).chunk(2, -1)
        held_BID = self.gathered((asked_ID @ key.mT).softmax(-1) @ value)
        found_BND = self.output((query @ known_ID.mT).softmax(-1) @ held_BID)
        return self.norm(found_BND + x_BND).transpose(0, 1)
