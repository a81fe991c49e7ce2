"""CaST is the convolutions, attention and codebook of its paper, built anew from torch's own layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, cross_entropy, gelu, layer_norm, mse_loss

from fedloom.check.problems import PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.central import Learning, Scene
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.methods.cast import Cast, CastNet
from fedloom.models.layers.disentangle import Dilated, Entity, Environment
from fedloom.models.layers.pairs import lagged_correlations, training_correlation

SMALL = Cast.Params(width=8, depth=4, environments=3, code=2, heads=2, hidden=(6, 10), dropout=0.0)
SAMPLES = torch.tensor([[3, 17, 30, 41]] * 5)


def network(params: Cast.Params) -> tuple[CastNet, Scene]:
    """A small network and a scene of 5 nodes and 4 moments."""
    task = problem(equal=True).task()
    centre = Cast(params).client(task).double()
    assert isinstance(centre.net, CastNet)
    return centre.net, centre.scene(task.batch("train", torch.arange(5), SAMPLES))


@pytest.mark.slow
def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    params = Cast.Params(3e-3, (0.5, 0.7, 0.9), 1e9, width=16, hidden=(32, 64), dropout=0.0)
    assert together_by_heart(Cast(params), 20, 15) < 0.01


@pytest.mark.parametrize("dilation", [1, 2, 5, 11, 12, 64])
def test_a_dilated_convolution_is_torch_s(dilation: int) -> None:
    part, x = Dilated(3, 4, dilation).double(), torch.randn(2, 12, 3).double()
    taps = part.weight.unflatten(1, (3, 3)).movedim(1, 2)
    expected = conv1d(x.mT, taps, part.bias, dilation=dilation, padding=dilation).mT
    torch.testing.assert_close(part(x), expected)


def test_a_window_is_exchanged_for_the_nearest_entry_and_its_gradient_is_not() -> None:
    part, x = Environment(12, 4, 2, 3).double(), torch.randn(5, 2, 12, 4, dtype=torch.float64, requires_grad=True)
    assert [p.in_features for p in part.past] == [4, 8]
    past = torch.zeros(10, 4, 12).double()
    for reach, conv in enumerate(part.past, 1):
        taps = conv.weight.unflatten(1, (reach, 4)).movedim(1, 2)
        wide = nn.functional.pad(x.flatten(0, 1).mT, (reach - 1, 0))
        past = past + conv1d(wide, taps, conv.bias) / 2
    expected = part.code(past.mT).flatten(1).view(5, 2, -1)
    found, code, chosen = part(x)
    torch.testing.assert_close(code, expected)
    for n in range(5):
        for b in range(2):
            nearest = int(np.argmin([float((code[n, b] - entry).norm().detach()) for entry in part.book]))
            assert int(chosen[n, b]) == nearest
            torch.testing.assert_close(found[n, b], part.output(part.book[nearest]))
    through, book = torch.autograd.grad(found.sum(), [code, part.book], retain_graph=True, allow_unused=True)
    torch.testing.assert_close(through, torch.ones(5, 2, 4).double() @ part.output.weight)
    assert book is None
    entries, codes = part.distances(code, chosen)
    quantised = part.book[chosen]
    torch.testing.assert_close(entries.mean(), mse_loss(code, quantised))
    torch.testing.assert_close(entries, codes)
    assert torch.autograd.grad(entries.sum(), code, retain_graph=True, allow_unused=True)[0] is None
    assert torch.autograd.grad(codes.sum(), part.book, allow_unused=True)[0] is None


def entity_by_hand(part: Entity, x: Tensor) -> Tensor:
    """Torch's own attention, and the Fourier transform as a matrix: x [windows, steps, features] to one vector each."""
    width, steps = x.shape[2], x.shape[1]
    joint = nn.MultiheadAttention(width, part.heads, batch_first=True).double()
    maps = part.query, part.key, part.value
    with torch.no_grad():
        joint.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))
        joint.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))
        joint.out_proj.load_state_dict(part.gathered.state_dict())
    attended = layer_norm(joint(x, x, x)[0] + x, (width,), part.norm.weight, part.norm.bias, 1e-12)
    angle = 2 * math.pi * torch.outer(torch.arange(steps // 2 + 1), torch.arange(steps)).double() / steps
    spectrum = torch.einsum("ft,btd->bfd", torch.complex(angle.cos(), -angle.sin()), x.to(torch.complex128))
    moved = torch.stack([spectrum[:, f] @ torch.complex(*w.unbind(-1)) for f, w in enumerate(part.weight)], 1)
    moved = moved + torch.complex(*part.bias.unbind(-1))
    # Every frequency but the first and the last stands for its mirror image, too.
    share = torch.tensor([1.0, *[2.0] * (steps // 2 - 1), 1.0]).double() / steps
    waves = torch.complex(angle.cos(), angle.sin())
    back = torch.einsum("f,ft,bfd->btd", share.to(torch.complex128), waves, moved).real
    return part.output((attended + back).mT)[..., 0]


def as_drawn(net: CastNet, scene: Scene, correlation_NN: Tensor, edges: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Forecasts and entities' vectors [N, B, ...], windows as channels of 1-d convolutions."""
    nodes, samples, steps = scene.x_NBT.shape
    x = scene.x_NBT.reshape(-1, 1, steps)
    for i, block in enumerate(net.start):
        y = x
        for part in (block.inner, block.outer):
            taps = part.weight.unflatten(1, (3, -1)).movedim(1, 2)
            y = conv1d(gelu(y), taps, part.bias, dilation=2**i, padding=2**i)
        last = i == len(net.start) - 1
        x = y + (conv1d(x, block.around.weight[..., None], block.around.bias) if last else x)
    windows = x.mT
    environment = net.environment(windows.view(nodes, samples, steps, -1))[0]
    entity = entity_by_hand(net.entity, windows).view(nodes, samples, -1)
    if net.params.graph == "panel":
        joined = sorted({tuple(sorted(ends)) for ends in zip(*edges, strict=True)})
        pairs = torch.tensor(joined).T
        known = torch.stack([torch.ones(len(joined)).double(), correlation_NN[pairs[0], pairs[1]]], -1)
        lagged = lagged_correlations(scene.x_NBT, pairs, [0, 6])
        found = net.score(net.between(net.pair(torch.cat([known[:, None].expand(-1, samples, -1), lagged], -1))))
        ways = found.view(len(joined), samples, 2, net.params.order)
        entity = net.passing(entity, pairs, [(ways[:, :, 0, k], ways[:, :, 1, k]) for k in range(net.params.order)])
    else:
        entity = net.passing(entity, torch.empty(2, 0), [])
    environment = environment + net.of_environment(net.node)[:, None]
    entity = entity + net.of_entity(net.node)[:, None]
    h = net.norm(torch.cat([environment, entity], -1))
    return nn.Sequential(net.hidden[0], nn.ReLU(), net.hidden[1], nn.ReLU(), net.output)(h), entity


@pytest.mark.parametrize("graph", ["panel", "none"])
def test_it_is_what_its_paper_draws(graph: Literal["panel", "none"]) -> None:
    net, scene = network(replace(SMALL, graph=graph))
    task = problem(equal=True).task()
    place = task.keys.argsort().argsort()
    edges = [[int(place[i]) for i in ends] for ends in task.edges.tolist()]
    expected, _ = as_drawn(net, scene, training_correlation(task), edges)
    torch.testing.assert_close(net(scene, None), expected)


def test_its_loss_adds_what_codebook_and_environments_ask_for() -> None:
    net, scene = network(replace(SMALL, commitment=0.25, independence=0.5))
    _, terms_N = net.read(scene, Learning({}, 0.0))
    code, chosen = net.environment(net.start(scene.x_NBT[..., None]))[1:]
    pairs, scores = net.pairs, net.scores(scene)
    entity = net.passing(net.entity(net.start(scene.x_NBT[..., None]), None), pairs, scores)
    entity = entity + net.of_entity(net.node)[:, None]
    guessed = nn.Sequential(net.guess[0], nn.ReLU(), net.guess[1], nn.Softmax(-1))(entity).flatten(0, 1)
    apart = mse_loss(code, net.environment.book[chosen])
    expected = 1.25 * apart - 0.5 * cross_entropy(guessed, chosen.flatten())
    torch.testing.assert_close(terms_N.sum(), expected)


@pytest.mark.parametrize("graph", ["panel", "none"])
def test_what_a_node_is_told_of_others_comes_from_neighbours(graph: Literal["panel", "none"]) -> None:
    """Forecasts share the mean and the spread that all nodes are normalised by; before that, messages are all."""
    given, told = problem(equal=True), []
    centre = Cast(replace(SMALL, graph=graph, order=1)).client(given.task()).double()
    assert isinstance(centre.net, CastNet)
    centre.net.passing.norm = nn.Identity()
    for task in (given.task(), given.disturbed(1).task()):
        scene = centre.scene(task.batch("train", torch.arange(5), SAMPLES))
        if graph == "panel":
            pairs = centre.net.pairs
            scores = [(torch.ones(pairs.shape[1], 4).double(),) * 2]
        else:
            pairs, scores = torch.empty(2, 0), centre.net.scores(scene)
        told.append(
            centre.net.passing(centre.net.entity(centre.net.start(scene.x_NBT[..., None]), None), pairs, scores)
        )
    moved = (told[0] != told[1]).flatten(1).any(1)[centre.place]
    assert set(moved.nonzero()[:, 0].tolist()) == ({0, 1, 2} if graph == "panel" else {1})


@pytest.mark.parametrize("site", ["shares", "gathered", "entity", "guess", "hidden 0", "hidden 1"])
def test_every_dropout_is_at_work_while_it_learns(site: str) -> None:
    net, scene = network(replace(SMALL, dropout=0.3))
    (step,) = Cast(replace(SMALL, dropout=0.3)).steps(Cast().phases(0, 1)[0])
    sizes = {n: tuple(12 if s == "history" else int(s) for s in d.shape) for n, d in step.noise.items()}
    kept = {n: torch.ones(5, 4, *size).double() for n, size in sizes.items()}
    lost = kept | {site: torch.zeros(5, 4, *sizes[site]).double()}
    one, two = (torch.cat([p.flatten() for p in net.read(scene, Learning(d, 0.0))]) for d in (kept, lost))
    assert (one != two).any()


def test_it_trains_without_a_graph_on_a_panel_that_has_none() -> None:
    once = replace(PROTOCOL, rounds=1)
    task = problem(equal=True).task(once)
    bare = replace(task, edges=task.edges[:, :0], weights=task.weights[:0])
    with pytest.raises(InputError, match="edges: expected at least one"):
        Cast(SMALL).client(bare)
    federation = Federation(Cast(replace(SMALL, graph="none")), bare, once, seed=0)
    assert federation.run(federation.start()).diverged is None
