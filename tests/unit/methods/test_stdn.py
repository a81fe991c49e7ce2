"""STDN is the convolutions, cells and attentions of its paper, with dense products and torch's own layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
import torch
from scipy.sparse.csgraph import laplacian
from torch import Tensor, nn
from torch.nn.functional import conv2d

from fedloom.check.problems import HORIZON, PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.central import Learning, Scene
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.methods.stdn import Stdn, StdnNet
from fedloom.models.layers.decomposition import Gathering, Mapped, SlotGraph, StepGRU, positions

SMALL = Stdn.Params(width=8, heads=2, order=2, codes=3, dropout=0.0)
SAMPLES = torch.tensor([[3, 17, 30, 41]] * 5)


def network(params: Stdn.Params) -> tuple[StdnNet, Scene]:
    """A small network and a scene of 5 nodes and 4 moments."""
    task = problem(equal=True).task()
    centre = Stdn(params).client(task).double()
    assert isinstance(centre.net, StdnNet)
    return centre.net, centre.scene(task.batch("train", torch.arange(5), SAMPLES))


@pytest.mark.slow
def test_it_learns_a_few_windows_by_heart(by_heart: Callable[[Method, int], float]) -> None:
    params = Stdn.Params(5e-3, 0.5, 5, width=32, heads=4, codes=4, order=1, layers=1, dropout=0.0)
    assert by_heart(Stdn(params), 150) < 0.1


def test_places_are_the_smoothest_eigenvectors_of_the_laplacian() -> None:
    weights = torch.rand(9, 9, generator=torch.Generator().manual_seed(2)).double()
    weights = (weights * (weights > 0.5)).fill_diagonal_(0)
    weights[4], weights[:, 4] = 0.0, 0.0
    places, others = positions(weights, 5), [0, 1, 2, 3, 5, 6, 7, 8]
    assert not places[4].any()
    own = laplacian(torch.maximum(weights, weights.T)[others][:, others].numpy(), normed=True)
    own = torch.from_numpy(own)
    values = torch.linalg.eigvalsh(own)
    torch.testing.assert_close(own @ places[others], places[others] * values[1:6])
    torch.testing.assert_close(places.T @ places, torch.eye(5).double())
    assert positions(weights, 12).shape == (9, 12)
    assert not positions(weights, 12)[:, 7:].any()


def test_the_graph_of_a_slot_is_a_core_contracted_with_three_tables() -> None:
    graph = SlotGraph(3, 4, 2).double()
    for table in graph.parameters():
        nn.init.normal_(table)
    slots = torch.tensor([1, 3])
    found = graph(slots)
    for b, slot in enumerate(slots.tolist()):
        score = torch.zeros(3, 3).double()
        for i in range(2):
            for j in range(2):
                for k in range(2):
                    outer = torch.outer(graph.source[:, j], graph.target[:, k])
                    score = score + graph.slot[slot, i] * graph.core[i, j, k] * outer
        torch.testing.assert_close(found[b], nn.Softmax(1)(nn.ReLU()(score)))
    assert (found[0] != found[1]).any()


def mapped(part: Mapped, x_BTNF: Tensor, learning: bool) -> Tensor:
    """A 1 x 1 convolution and torch's batch normalisation, [batch, steps, nodes, features]."""
    norm = nn.BatchNorm2d(part.map.out_features).double().train(learning)
    norm.load_state_dict({n: getattr(part.norm, n) for n in ("weight", "bias")}, strict=False)
    return norm(conv2d(x_BTNF.permute(0, 3, 2, 1), part.map.weight[..., None, None])).permute(0, 3, 2, 1)


def gathered(part: Gathering, asking: Tensor, asked: Tensor, learning: bool) -> Tensor:
    """Torch's own attention over steps, node by node and head by head."""
    query, key, value = (
        mapped(m, x, learning).relu().transpose(1, 2).chunk(part.heads, -1)
        for m, x in ((part.query, asking), (part.key, asked), (part.value, asked))
    )
    heads = [nn.functional.scaled_dot_product_attention(*one) for one in zip(query, key, value, strict=True)]
    return mapped(part.output, torch.cat(heads, -1).transpose(1, 2), learning).relu()


def recurred(part: StepGRU, x_BTND: Tensor) -> Tensor:
    """A cell for every step."""
    h, states, width = torch.zeros_like(x_BTND[:, 0]), [], x_BTND.shape[-1]
    for t, (gates, candidate) in enumerate(zip(part.gates, part.candidate, strict=True)):
        both = torch.sigmoid(gates(torch.cat([x_BTND[:, t], h], -1)))
        new = torch.tanh(candidate(torch.cat([x_BTND[:, t], both[..., :width] * h], -1)))
        h = both[..., width:] * new + (1 - both[..., width:]) * h
        states.append(h)
    return torch.stack(states, 1)


def as_drawn(net: StdnNet, scene: Scene, learning: bool) -> Tensor:
    """Forecasts [B, H, N] with nodes next to last and codes spread over all nodes, as the paper has them."""
    x = scene.x_NBT.permute(1, 2, 0)[..., None]
    samples, steps, nodes, _ = x.shape
    x = mapped(net.read[1], mapped(net.read[0], x, learning).relu(), learning)
    brought = [x]
    if net.graph is not None:
        walk = net.graph(scene.slot_BT[:, 0])
        brought += [torch.einsum("bnm,btmd->btnd", torch.matrix_power(walk, k), x) for k in (1, 2)]
    x = mapped(net.mixed, torch.cat(brought, -1), learning).relu()
    norm = nn.LayerNorm(net.params.codes, elementwise_affine=False), nn.LayerNorm(8, elementwise_affine=False)
    place = norm[1](net.place(nn.LeakyReLU()(norm[0](net.near(net.places))))).sigmoid()
    first = scene.slot_BT[:, 0] + 24 * scene.weekday_BT[:, 0]
    hours = (first[:, None] + torch.arange(steps + HORIZON)) % (7 * 24)
    hot = torch.zeros(samples, steps + HORIZON, 24 + 7).double()
    for b in range(samples):
        for t in range(steps + HORIZON):
            hot[b, t, hours[b, t] % 24] = hot[b, t, 24 + hours[b, t] // 24] = 1
    code = hot[:, :, None].expand(-1, -1, nodes, -1)
    code = mapped(net.clock[1], mapped(net.clock[0], code, learning).relu(), learning).relu()
    code = mapped(net.clock[2], code, learning).sigmoid().sin()
    trend = x * (code[:, :steps] + place.relu())
    parts = [norm[1](part(given) + given) for part, given in zip(net.parts, (trend, x - trend), strict=True)]
    h = sum(recurred(cell, part) for cell, part in zip(net.encoder, parts, strict=True))[:, -HORIZON:]
    for layer in net.decoder:
        told = torch.cat([h, code[:, steps:], place.expand_as(h)], -1)
        held = gathered(layer.gather, layer.points.expand(samples, -1, -1, -1), told, learning)
        h = h + gathered(layer.spread, told, held, learning)
    return net.output(mapped(net.hidden, h, learning).relu())[..., 0]


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("graph", ["both", "none"])
def test_it_is_what_its_paper_draws(graph: Literal["both", "none"], learning: bool) -> None:
    net, scene = network(replace(SMALL, graph=graph))
    expected = as_drawn(net, scene, learning).permute(2, 0, 1)
    torch.testing.assert_close(net(scene, Learning({}, 0.0) if learning else None), expected)


@pytest.mark.parametrize("graph", ["both", "none"])
def test_nodes_meet_over_the_learnt_graph_alone(graph: Literal["both", "none"]) -> None:
    given = problem(equal=True)
    centre = Stdn(replace(SMALL, graph=graph)).client(given.task()).double()
    one, two = (centre(g.task().batch("train", torch.arange(5), SAMPLES)) for g in (given, given.disturbed(1)))
    moved = set((one != two).flatten(1).any(1).nonzero()[:, 0].tolist())
    assert moved == (set(range(5)) if graph == "both" else {1})


def test_the_rate_falls_by_a_tenth_from_stage_to_stage() -> None:
    stdn = Stdn()
    phases = [replace(stdn.phases(r, 200)[0], progress=r / 200) for r in (0, 9, 10, 30, 199)]
    rates = [stdn.steps(phase)[0].optimiser.lr for phase in phases]
    assert rates == pytest.approx([1e-3 * 0.9**k for k in (0, 0, 1, 3, 19)])


def test_dropout_is_at_work_while_it_learns() -> None:
    once, ends = replace(PROTOCOL, rounds=1), []
    for dropout in (0.0, 0.3):
        federation = Federation(Stdn(replace(SMALL, dropout=dropout)), problem(equal=True).task(), once, seed=0)
        ends.append(federation.run(federation.start()).params["net.output.weight"])
    assert (ends[0] != ends[1]).any()


def test_what_it_cannot_do_is_refused() -> None:
    task = problem(equal=True).task()
    with pytest.raises(InputError, match="horizon: expected at most the history's 12, found 13"):
        Stdn(SMALL).client(replace(task, horizon=13))
    bare = replace(task, edges=task.edges[:, :0], weights=task.weights[:0])
    with pytest.raises(InputError, match="edges: expected at least one"):
        Stdn(SMALL).client(bare)
    Stdn(replace(SMALL, graph="none")).client(bare)
