"""FaST has its authors' size, and adds up experts and agents as plain loops do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.central import Scene
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.fast import Fast, FastNet
from fedloom.models.layers.experts import AgentAttention, Experts

SMALL = Fast.Params(width=4, layers=2, experts=3, agents=2)
SAMPLES = torch.tensor([[3, 17, 30, 41]] * 5)


def network(params: Fast.Params = SMALL) -> tuple[FastNet, Scene]:
    """A small network and a scene of 5 nodes and 4 moments."""
    task = problem(equal=True).task()
    centre = Fast(params).client(task).double()
    assert isinstance(centre.net, FastNet)
    return centre.net, centre.scene(task.batch("train", torch.arange(5), SAMPLES))


def test_on_metr_la_it_has_about_420_thousand_numbers(metr_la_sized: ForecastTask) -> None:
    assert round(sum(p.numel() for p in Fast().client(metr_la_sized).parameters()), -4) == 420_000


def test_it_learns_a_few_windows_by_heart(by_heart: Callable[[Method, int], float]) -> None:
    params = Fast.Params(1e-2, l2=0.0, milestones=(0.6, 0.8), width=32, layers=2, experts=4, agents=4)
    assert by_heart(Fast(params), 120) < 0.1


def mixed_by_hand(experts: Experts, x_F: Tensor, window_T: Tensor, scene: Scene, node: int, moment: int) -> Tensor:
    """What one node's experts make of ``x_F``: every expert on its own."""
    tables, count = experts.tables, experts.experts
    slot, day = scene.slot_BT[moment, -1], scene.weekday_BT[moment, -1]
    logits = experts.router.weight @ window_T + experts.router.bias
    weights = torch.exp(logits + tables.node[node] + tables.slot[slot] + tables.weekday[day])
    weights = weights / weights.sum()
    width = experts.units.out_features // (2 * count)
    total = torch.zeros(width, dtype=x_F.dtype)
    for k in range(count):
        own = slice(k * width, (k + 1) * width), slice((count + k) * width, (count + k + 1) * width)
        signal, gate = (experts.units.weight[rows] @ x_F + experts.units.bias[rows] for rows in own)
        total = total + weights[k] * signal / (1 + torch.exp(-gate))
    return total


def attended_by_hand(part: AgentAttention, x_ND: Tensor, agents_ID: Tensor) -> Tensor:
    """Agents first, one by one, then nodes, one by one."""
    width = x_ND.shape[1]
    query, key, value = (part.of_node.weight @ x_ND.T + part.of_node.bias[:, None]).T.split(width, 1)
    asked, known = (part.of_agent.weight @ agents_ID.T + part.of_agent.bias[:, None]).T.split(width, 1)

    def gathered(q_D: Tensor, k_RD: Tensor, v_RD: Tensor) -> Tensor:
        share = torch.stack([torch.exp(q_D.dot(k) / math.sqrt(width)) for k in k_RD])
        return sum(s * v for s, v in zip(share / share.sum(), v_RD, strict=True))

    held = torch.stack([part.gathered(gathered(q, key, value)) for q in asked])
    found = torch.stack([part.output(gathered(q, known, held)) for q in query]) + x_ND
    return part.norm.weight * found / (found.square().mean(1, keepdim=True).sqrt() + 1e-8)


def test_it_is_its_experts_and_agents_one_by_one() -> None:
    net, scene = network()
    assert net.agents is not None
    expected = torch.zeros(5, 4, 4).double()
    for moment in range(4):
        mean = scene.x_NBT[:, moment].mean(1, keepdim=True)
        sd = (scene.x_NBT[:, moment].std(1, keepdim=True).square() + 1e-5).sqrt()
        window_NT = (scene.x_NBT[:, moment] - mean) / sd

        def mixed(experts: Experts, x_NF: Tensor, moment: int = moment, window: Tensor = window_NT) -> Tensor:
            return torch.stack([mixed_by_hand(experts, x_NF[n], window[n], scene, n, moment) for n in range(5)])

        slot, day = scene.slot_BT[moment, -1], scene.weekday_BT[moment, -1]
        h = mixed(net.embed, window_NT) + net.tables.node + net.tables.slot[slot] + net.tables.weekday[day]
        found = [h]
        for attend, mix, norm in zip(net.attend, net.mix, net.norm, strict=True):
            h = attended_by_hand(attend, h, net.agents)
            found.append(mixed(mix, h))
            h = h + found[-1]
            h = norm.weight * h / (h.square().mean(1, keepdim=True).sqrt() + 1e-8)
        expected[:, moment] = net.output(net.hidden(torch.cat(found, 1)).relu()) * sd + mean
    torch.testing.assert_close(net(scene, None), expected)


def test_a_forecast_moves_and_stretches_with_its_window() -> None:
    net, scene = network(replace(SMALL, agents=0))
    twice = scene._replace(x_NBT=2 * scene.x_NBT + 3)
    torch.testing.assert_close(net(twice, None), 2 * net(scene, None) + 3, atol=1e-3, rtol=1e-3)


def test_a_window_of_one_value_is_forecast_by_numbers() -> None:
    net, scene = network()
    assert torch.isfinite(net(scene._replace(x_NBT=torch.zeros_like(scene.x_NBT)), None)).all()


@pytest.mark.parametrize("agents", [0, 2])
def test_nodes_meet_through_agents_alone(agents: int) -> None:
    given = problem(equal=True)
    centre = Fast(replace(SMALL, agents=agents)).client(given.task()).double()
    one, two = (centre(g.task().batch("train", torch.arange(5), SAMPLES)) for g in (given, given.disturbed(1)))
    moved = set((one != two).flatten(1).any(1).nonzero()[:, 0].tolist())
    assert moved == (set(range(5)) if agents else {1})


def test_its_loss_is_square_below_one_unit_of_the_readings_and_leaves_out_what_is_missing() -> None:
    protocol = replace(PROTOCOL, rounds=1, batch=1000, train_stride=1)
    federation = Federation(Fast(SMALL), problem(equal=True).task(protocol), protocol, seed=0)
    task, start = federation.task, federation.start()
    rows, windows = torch.arange(5), torch.arange(int(task.sizes("train")[0])).expand(5, -1)
    centre = federation.skeleton
    centre.load_state_dict({n: t[0] for n, t in start.params.items()}, strict=False)
    batch = task.batch("train", rows, windows)
    truth, observed = task.truth("train", rows, windows)
    gap = (task.unscale(centre(batch), rows) - truth)[observed]
    expected = torch.nn.SmoothL1Loss()(gap, torch.zeros_like(gap))
    state = federation.run(federation.start())
    logged = sum(v for _, _, quantity, v in state.log if quantity == "train_loss")
    assert not observed.all()
    assert logged == pytest.approx(float(expected.detach()))
