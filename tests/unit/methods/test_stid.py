"""STID has the published size, and reads window, node and clock as its paper says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.stid import Stid, StidNet


def test_on_metr_la_it_has_the_published_size(metr_la_sized: ForecastTask) -> None:
    assert sum(p.numel() for p in Stid().client(metr_la_sized).parameters()) == 117_868


def test_it_learns_a_few_windows_by_heart(by_heart: Callable[[Method, int], float]) -> None:
    params = Stid.Params(dropout=0.0, l2=0.0, milestones=(0.6, 0.8), lr=1e-2)
    assert by_heart(Stid(params), 300) < 0.2


def test_it_is_the_paper_s_convolutions_over_windows_and_tables() -> None:
    """Built anew from 1 x 1 convolutions over channels and ``nn.Embedding``, nodes along the last axis."""
    task = problem(equal=True).task()
    centre = Stid(Stid.Params(width=8, depth=2)).client(task).double()
    net = centre.net
    assert isinstance(net, StidNet)
    scene = centre.scene(task.batch("train", torch.arange(5), torch.tensor([[3, 17, 30, 41]] * 5)))
    x_BNT = scene.x_NBT.movedim(0, 1)
    tod, dow = (scene.slot_BT / 24).double(), (scene.weekday_BT / 7).double()
    read = torch.cat([x_BNT, tod[:, None].expand_as(x_BNT), dow[:, None].expand_as(x_BNT)], -1)

    def conv(layer: nn.Module, x_BFN: torch.Tensor) -> torch.Tensor:
        assert isinstance(layer, nn.Linear)
        return nn.functional.conv1d(x_BFN, layer.weight[..., None], layer.bias)

    code = conv(net.window, read.mT)
    slot, day = nn.Embedding.from_pretrained(net.slot), nn.Embedding.from_pretrained(net.weekday)
    tables = [t[..., None].expand(-1, -1, 5) for t in (slot(scene.slot_BT[:, -1]), day(scene.weekday_BT[:, -1]))]
    h = torch.cat([code, net.node.T.expand(4, -1, -1), *tables], 1)
    for inner, outer in zip(net.inner, net.outer, strict=True):
        h = h + conv(outer, conv(inner, h).relu())
    torch.testing.assert_close(net(scene, None), conv(net.output, h).permute(2, 0, 1))


def test_dropout_and_the_weight_penalty_are_at_work_while_it_learns() -> None:
    once = replace(PROTOCOL, rounds=2)
    ends = []
    for params in ({}, {"dropout": 0.0}, {"l2": 0.1}):
        federation = Federation(Stid(Stid.Params(width=4, depth=1, **params)), problem(equal=True).task(), once, seed=0)
        ends.append(federation.run(federation.start()).params["net.inner.0.weight"])
    assert (ends[0] != ends[1]).any()
    assert ends[2].abs().sum() < ends[0].abs().sum()
