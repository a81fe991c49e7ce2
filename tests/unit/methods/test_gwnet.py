"""Graph WaveNet has the published size, and is the stack of 2-d convolutions that its paper draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from fedloom.check.problems import problem
from fedloom.errors import InputError
from fedloom.federation.central import Learning
from fedloom.federation.method import Method
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.gwnet import Graph, GraphWaveNet, Gwnet

SMALL = {"channels": 8, "skip": 12, "end": 16, "embedding": 3}


def test_on_metr_la_it_has_the_published_size(metr_la_sized: ForecastTask) -> None:
    assert sum(p.numel() for p in Gwnet().client(metr_la_sized).parameters()) == 309_400


@pytest.mark.slow
def test_it_learns_a_few_windows_by_heart(by_heart: Callable[[Method, int], float]) -> None:
    params = Gwnet.Params(5e-3, l2=0.0, clip=1e9, channels=16, skip=128, end=256, embedding=3, dropout=0.0)
    assert by_heart(Gwnet(params), 700) < 0.4


def as_drawn(net: GraphWaveNet, read_BFNT: Tensor, edges: list[list[int]], learning: bool) -> Tensor:
    """Forecasts [B, H, N] from 2-d convolutions over [B, channels, nodes, time] and dense matrix powers."""
    nodes = read_BFNT.shape[2]
    dense = torch.zeros(nodes, nodes).double()
    dense[edges[0], edges[1]] = 1.0
    learnt = nn.Softmax(1)(nn.ReLU()(net.source @ net.target.T))
    walks = [torch.diag(1 / w.sum(1)) @ w for w in (dense, dense.T)] + [learnt]
    x, skipped = conv2d(pad(read_BFNT, (1, 0)), net.start.weight[..., None, None], net.start.bias), None
    for layer in range(8):
        dilation, width = 1 + layer % 2, net.start.out_features
        taps = net.gated[layer].weight.unflatten(1, (2, width)).movedim(1, -1)[:, :, None]
        signal, gate = conv2d(x, taps, net.gated[layer].bias, dilation=(1, dilation)).split(width, 1)
        z = signal.tanh() * gate.sigmoid()
        skip = conv2d(z, net.skip[layer].weight[..., None, None], net.skip[layer].bias)
        skipped = skip if skipped is None else skip + skipped[..., -skip.shape[3] :]
        if layer == 7:
            break
        joined = torch.cat(
            [z, *(torch.einsum("nm,bcmt->bcnt", p.matrix_power(k), z) for p in walks for k in (1, 2))], 1
        )
        mixed = conv2d(joined, net.graph[layer].weight.flatten(0, 1).T[..., None, None], net.graph[layer].bias)
        norm = nn.BatchNorm2d(width).double().train(learning)
        norm.load_state_dict({n: getattr(net.norm[layer], n) for n in ("weight", "bias")}, strict=False)
        x = norm(mixed + x[..., -mixed.shape[3] :])
    hidden = conv2d(skipped.relu(), net.hidden.weight[..., None, None], net.hidden.bias).relu()
    return conv2d(hidden, net.output.weight[..., None, None], net.output.bias)[..., 0]


@pytest.mark.parametrize("learning", [True, False])
def test_it_is_the_stack_of_convolutions_that_its_paper_draws(learning: bool) -> None:
    task = problem(equal=True).task()
    centre = Gwnet(Gwnet.Params(**SMALL, dropout=0.0)).client(task).double()
    scene = centre.scene(task.batch("train", torch.arange(5), torch.tensor([[3, 17, 30, 41]] * 5)))
    clock = (scene.slot_BT / 24).double()[:, None].expand(-1, 5, -1)
    read = torch.stack([scene.x_NBT.movedim(0, 1), clock], 1)
    edges = [[centre.place[i] for i in ends] for ends in task.edges.tolist()]
    expected = as_drawn(centre.net, read, edges, learning).permute(2, 0, 1)
    torch.testing.assert_close(centre.net(scene, Learning({}, 0.0) if learning else None), expected)


@pytest.mark.parametrize(("graph", "supports"), [("both", 6), ("panel", 4), ("adaptive", 2), ("none", 0)])
def test_a_node_hears_others_over_the_graphs_that_are_asked_for_alone(graph: Graph, supports: int) -> None:
    given = problem(equal=True)
    task, other = given.task(), given.disturbed(1).task()
    centre = Gwnet(Gwnet.Params(**SMALL, blocks=1, graph=graph)).client(task).double()
    assert len(centre.net.supports()) == supports
    batches = [t.batch("train", torch.arange(5), torch.tensor([[3, 17]] * 5)) for t in (task, other)]
    one, two = (centre(b) for b in batches)
    moved = set((one != two).flatten(1).any(1).nonzero()[:, 0].tolist())
    assert moved == ({1} if graph == "none" else set(range(5)))


def test_a_panel_without_edges_is_refused_where_they_are_needed() -> None:
    task = problem(equal=True).task()
    bare = replace(task, edges=task.edges[:, :0], weights=task.weights[:0])
    with pytest.raises(InputError, match="edges: expected at least one for a method that needs a graph, found none"):
        Gwnet().client(bare)
    Gwnet(Gwnet.Params(graph="adaptive")).client(bare)
