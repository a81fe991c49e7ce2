"""Stacked optimisers equal torch's own on each client alone."""

from __future__ import annotations

import pytest
import torch

from fedloom.federation.optim import SGD, Adam


def gradients(steps: int, clients: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"a": (3, 2), "b": (4,)}
    return [
        {n: torch.randn(clients, *s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        for _ in range(steps)
    ]


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("kind", [Adam, SGD])
def test_stacked_steps_equal_torch_on_each_client(kind: type, clip: float | None) -> None:
    clients, ours = 3, kind(lr=0.01, clip=clip)
    draws = gradients(steps=6, clients=clients)
    params = {n: torch.ones_like(g) for n, g in draws[0].items()}
    alone = [{n: torch.nn.Parameter(p[c].clone()) for n, p in params.items()} for c in range(clients)]
    theirs = [{Adam: torch.optim.Adam, SGD: torch.optim.SGD}[kind](own.values(), lr=0.01) for own in alone]
    moments = ours.start(params)
    for grads in draws:
        for client, (own, optimiser) in enumerate(zip(alone, theirs, strict=True)):
            for name, p in own.items():
                p.grad = grads[name][client].clone()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(own.values(), clip)
            optimiser.step()
        ours.step(params, {n: g.clone() for n, g in grads.items()}, moments)
    for client, own in enumerate(alone):
        for name, p in own.items():
            torch.testing.assert_close(params[name][client], p.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [Adam, SGD])
def test_how_a_gradient_lies_in_memory_changes_nothing(kind: type) -> None:
    gradient = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).mT
    stepped = []
    for given in (gradient, gradient.contiguous()):
        params, ours = {"a": torch.zeros(2, 3, 4)}, kind(lr=0.1)
        ours.step(params, {"a": given}, ours.start(params))
        stepped.append(params["a"])
    assert torch.equal(*stepped)


def test_decay_and_betas_are_those_of_adamw() -> None:
    draws = gradients(steps=5, clients=2)
    params = {n: torch.ones_like(g) for n, g in draws[0].items()}
    alone = [{n: torch.nn.Parameter(p[c].clone()) for n, p in params.items()} for c in range(2)]
    theirs = [torch.optim.AdamW(own.values(), lr=0.05, betas=(0.9, 0.98), weight_decay=0.1) for own in alone]
    ours = Adam(lr=0.05, betas=(0.9, 0.98), decay=0.1)
    moments = ours.start(params)
    for grads in draws:
        for client, (own, optimiser) in enumerate(zip(alone, theirs, strict=True)):
            for name, p in own.items():
                p.grad = grads[name][client].clone()
            optimiser.step()
        ours.step(params, {n: g.clone() for n, g in grads.items()}, moments)
    for client, own in enumerate(alone):
        for name, p in own.items():
            torch.testing.assert_close(params[name][client], p.detach(), rtol=0, atol=1e-12)


def test_a_client_that_started_later_has_its_own_step_count() -> None:
    draws = gradients(steps=3, clients=2)
    params = {n: torch.zeros_like(g) for n, g in draws[0].items()}
    fresh = {n: torch.zeros_like(g) for n, g in draws[0].items()}
    adam = Adam(lr=0.1)
    moments = adam.start(params)
    first = {n: m[:1] for n, m in moments.items()}
    adam.step({n: p[:1] for n, p in params.items()}, {n: g[:1].clone() for n, g in draws[0].items()}, first)
    adam.step(params, {n: g.clone() for n, g in draws[1].items()}, moments)
    alone = adam.start(fresh)
    adam.step(fresh, {n: g.clone() for n, g in draws[1].items()}, alone)
    for name in params:
        torch.testing.assert_close(params[name][1], fresh[name][1])
        assert moments[f"{name}/count"].tolist() == [2, 1]


def test_clipping_one_client_leaves_the_others_alone() -> None:
    small, large = torch.full((1, 2), 0.1), torch.full((1, 2), 100.0)
    grads = {"a": torch.cat([small, large])}
    SGD(lr=1.0, clip=1.0).step({"a": torch.zeros(2, 2)}, grads, {})
    assert torch.equal(grads["a"][0], small[0])
    assert grads["a"][1].norm().item() == pytest.approx(1.0, abs=1e-5)
