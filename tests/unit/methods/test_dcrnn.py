"""DCRNN has the published size, is the recurrence that its paper writes, and is told the truth less and less."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from fedloom.check.problems import HORIZON, problem
from fedloom.federation.central import Learning
from fedloom.federation.method import Method
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.dcrnn import Dcrnn, DiffusionGRU
from fedloom.models.layers.recurrent import told_share


def test_on_metr_la_it_has_the_published_size(metr_la_sized: ForecastTask) -> None:
    assert sum(p.numel() for p in Dcrnn().client(metr_la_sized).parameters()) == 372_353


@pytest.mark.slow
def test_it_learns_a_few_windows_by_heart(by_heart: Callable[[Method, int], float]) -> None:
    params = Dcrnn.Params(3e-2, eps=1e-8, milestones=(0.7,), clip=1e9, hidden=48, layers=1)
    assert by_heart(Dcrnn(params), 300) < 0.3


def cell_by_hand(cell: DiffusionGRU, x_BNF: Tensor, h_BND: Tensor, walks: list[Tensor]) -> Tensor:
    """One step of Eq. 3 with a joint convolution of [x, h] and dense powers, batch first."""
    nodes, hidden = h_BND.shape[1], h_BND.shape[2]
    bases = [torch.eye(nodes).double(), *(m for p in walks for m in (p, 2 * p @ p - torch.eye(nodes)))]

    def convolve(parts: list[Tensor], weights: list[Tensor]) -> Tensor:
        joint = torch.cat(parts, -1)
        return sum(base @ joint @ torch.cat([w[s] for w in weights]) for s, base in enumerate(bases))

    to_gates, to_candidate = cell.read.weight.split([2 * hidden, hidden], -1)
    gates_bias, candidate_bias = cell.read.bias.split([2 * hidden, hidden])
    gates = torch.sigmoid(convolve([x_BNF, h_BND], [to_gates, cell.gates.weight]) + gates_bias)
    reset, update = gates[..., :hidden], gates[..., hidden:]
    candidate = convolve([x_BNF, reset * h_BND], [to_candidate, cell.candidate.weight]) + candidate_bias
    return update * h_BND + (1 - update) * torch.tanh(candidate)


@pytest.mark.parametrize("graph", ["panel", "none"])
def test_it_is_the_recurrence_of_its_paper(graph: Literal["panel", "none"]) -> None:
    task = problem(equal=True).task()
    centre = Dcrnn(Dcrnn.Params(hidden=6, graph=graph)).client(task).double()
    scene = centre.scene(task.batch("train", torch.arange(5), torch.tensor([[3, 17, 30, 41]] * 5)))
    dense = torch.zeros(5, 5).double()
    for source, receiver in task.edges.T.tolist():
        dense[centre.place[source], centre.place[receiver]] = 1.0
    walks = [torch.diag(1 / w.sum(1)) @ w for w in (dense, dense.T)] if graph == "panel" else []
    states = [torch.zeros(4, 5, 6).double() for _ in range(2)]
    for t in range(12):
        clock = (scene.slot_BT[:, t] / 24).double()[:, None].expand(-1, 5)
        fed = torch.stack([scene.x_NBT[:, :, t].T, clock], -1)
        for layer, cell in enumerate(centre.net.encoder):
            fed = states[layer] = cell_by_hand(cell, fed, states[layer], walks)
    fed, expected = torch.zeros(4, 5, 1).double(), []
    for _ in range(HORIZON):
        for layer, cell in enumerate(centre.net.decoder):
            fed = states[layer] = cell_by_hand(cell, fed, states[layer], walks)
        fed = centre.net.output(fed)
        expected.append(fed[..., 0].T)
    torch.testing.assert_close(centre.net(scene, None), torch.stack(expected, -1))


def test_gates_start_open_and_weights_by_the_joint_convolution() -> None:
    cell = DiffusionGRU(16, 64, 4)
    assert cell.read.bias is not None
    assert cell.read.bias.tolist() == [1.0] * 128 + [0.0] * 64
    expected = {128: math.sqrt(2 / (5 * 80 + 128)), 64: math.sqrt(2 / (5 * 80 + 64))}
    for weight in (cell.gates.weight, cell.candidate.weight, cell.read.weight[..., :128], cell.read.weight[..., 128:]):
        assert weight.std().item() == pytest.approx(expected[weight.shape[-1]], rel=0.05)


def test_the_truth_is_told_as_often_as_the_paper_s_schedule_says() -> None:
    for i in (0.0, 9_375.0, 15_000.0, 37_500.0):
        found = told_share(torch.tensor(i, dtype=torch.float64), 2000.0).item()
        assert found == pytest.approx(2000 / (2000 + math.exp(i / 2000)))
    assert told_share(torch.tensor(37_500.0), 1.0) == 0.0


def test_the_decoder_hears_the_truth_of_the_step_before_where_the_coin_says_so_and_it_was_observed() -> None:
    task = problem(equal=True).task()
    centre = Dcrnn(Dcrnn.Params(hidden=6)).client(task).double()
    scene = centre.scene(task.batch("train", torch.arange(5), torch.tensor([[3, 17, 30, 41]] * 5)))
    coins = torch.tensor([[0.9999, 0.5, 0.9999, 0.9999]] * 5)  # only the second reading is told
    moved = scene._replace(y_NBH=scene.y_NBH + 1.0)
    unseen = moved._replace(mask_NBH=torch.zeros_like(moved.mask_NBH))

    def forecast(given: tuple, progress: float) -> Tensor:
        return centre.net(given, Learning({"told": coins}, progress))

    differs = (forecast(scene, 0.1) != forecast(moved, 0.1)).flatten(0, 1).any(0)
    assert differs.tolist() == [False, False, True, True]
    assert torch.equal(forecast(moved, 1.0), centre.net(scene, None))
    assert torch.equal(forecast(unseen, 0.1), centre.net(scene, None))
