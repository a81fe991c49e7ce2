"""Recurrent, diffusion and matching layers against independent computations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat

import numpy as np
import pytest
import torch
from torch import Tensor

from fedloom.models.layers.diffusion import CLAMP, Noise, add_noise, ddim, denoised, signal_share
from fedloom.models.layers.matching import SCALES, grouped_mmd, reversed_gradient
from fedloom.models.layers.recurrent import GRU


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_gru_equals_torchs_own() -> None:
    ours, theirs = GRU(5, 7), torch.nn.GRU(5, 7, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    u = torch.randn(3, 11, 5, generator=generator())
    torch.testing.assert_close(ours(u), theirs(u)[0])


def test_many_grus_run_as_one_program() -> None:
    modules = [GRU(2, 3) for _ in range(4)]
    params, _ = torch.func.stack_module_state(modules)
    u = torch.randn(4, 2, 5, 2, generator=generator())
    together = torch.vmap(lambda p, x: torch.func.functional_call(modules[0], p, (x,)))(params, u)
    for client, module in enumerate(modules):
        torch.testing.assert_close(together[client], module(u[client]))


def test_signal_share_falls_from_nearly_all_to_nearly_nothing() -> None:
    share = signal_share(100, torch.float64)
    assert (share.diff() < 0).all()
    assert share[0] > 0.999
    assert share[-1] < 1e-3


def test_denoising_undoes_noise() -> None:
    clean, noise = (torch.randn(6, 4, generator=generator(s), dtype=torch.float64) for s in (0, 1))
    share = torch.rand(6, generator=generator(2), dtype=torch.float64)
    torch.testing.assert_close(denoised(add_noise(clean, noise, share), noise, share), clean)


MODES = torch.tensor([[-1.5, 0.5], [1.5, -0.5]], dtype=torch.float64)
SPREAD = 0.3


def exact_noise(share: Tensor, z: Tensor, level: Tensor) -> Tensor:
    """The expected noise of a mixture of two Gaussians at ``MODES``, in closed form."""
    s = share[level][..., None]
    variance = s * SPREAD**2 + 1 - s
    centre = s.sqrt()[..., None] * MODES
    distance = (z[:, None] - centre).square().sum(-1) / (2 * variance)
    weight = (-distance).softmax(-1)[..., None]
    score = (weight * (centre - z[:, None])).sum(1) / variance
    return -(1 - s).sqrt() * score


def ancestral(predict: Noise, start: Tensor, share: Tensor, noises: Iterator[Tensor]) -> Tensor:
    """Ancestral sampling (DDPM) through every level; ``noises`` yields a fresh draw [..., D] a level."""
    z = start
    for here in range(len(share) - 1, -1, -1):
        predicted = predict(z, torch.tensor(here, device=z.device))
        clean = denoised(z, predicted, share[here]).clamp(-CLAMP, CLAMP)
        if here == 0:
            return clean
        before, beta = share[here - 1], 1 - share[here] / share[here - 1]
        mean = (before.sqrt() * beta * clean + (share[here] / before).sqrt() * (1 - before) * z) / (1 - share[here])
        z = mean + (beta * (1 - before) / (1 - share[here])).sqrt() * next(noises)
    return z


@pytest.mark.parametrize("sampler", ["ddim", "ancestral"])
def test_samplers_draw_the_mixture_whose_noise_is_known(sampler: str) -> None:
    share = signal_share(100, torch.float64)
    start = torch.randn(4000, 2, generator=generator(), dtype=torch.float64)
    fresh = (torch.randn(4000, 2, generator=g, dtype=torch.float64) for g in repeat(generator(1)))
    predict = lambda z, n: exact_noise(share, z, n)  # noqa: E731
    drawn = ddim(predict, start, share, 100) if sampler == "ddim" else ancestral(predict, start, share, fresh)
    right = drawn[:, 0] > 0
    assert right.double().mean().item() == pytest.approx(0.5, abs=0.03)
    for mode, side in zip(MODES, (~right, right), strict=True):
        torch.testing.assert_close(drawn[side].mean(0), mode, atol=0.05, rtol=0)
        torch.testing.assert_close(drawn[side].std(0), torch.full((2,), SPREAD, dtype=torch.float64), atol=0.05, rtol=0)


def brute_mmd(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """Unbiased squared discrepancy by a double loop over pairs of different rows."""
    square = [
        ((a - b) ** 2).sum() for i, a in enumerate(x) for j, b in enumerate(x) if i != j and second[i] and second[j]
    ]
    median = sorted(square)[(len(square) - 1) // 2]

    def mean(one: np.ndarray, two: np.ndarray) -> float:
        values = [
            np.mean([math.exp(-((x[i] - x[j]) ** 2).sum() / (2 * s * median)) for s in SCALES])
            for i in np.flatnonzero(one)
            for j in np.flatnonzero(two)
            if i != j
        ]
        return float(np.mean(values))

    return mean(first, first) + mean(second, second) - 2 * mean(first, second)


def test_discrepancy_equals_a_double_loop() -> None:
    x = torch.randn(14, 3, generator=generator(), dtype=torch.float64)
    everyone = torch.ones(14, dtype=torch.float64)
    everyone[-2:] = 0
    groups = torch.zeros(2, 14, dtype=torch.float64)
    groups[0, :5], groups[1, 3:9] = 1, 1
    found = grouped_mmd(x, groups, everyone)
    for group, value in zip(groups, found, strict=True):
        expected = brute_mmd(x.numpy(), group.numpy() > 0, everyone.numpy() > 0)
        assert value.item() == pytest.approx(expected, abs=1e-12)


def test_discrepancy_of_groups_drawn_at_random_has_mean_zero() -> None:
    values = []
    for seed in range(200):
        x = torch.randn(40, 3, generator=generator(seed), dtype=torch.float64)
        first = torch.zeros(1, 40, dtype=torch.float64)
        first[0, :20] = 1
        values.append(grouped_mmd(x, first, 1 - first[0])[0].item())
    assert abs(np.mean(values)) < 3 * np.std(values) / math.sqrt(len(values))


def test_rows_that_are_all_alike_have_no_discrepancy() -> None:
    first = torch.tensor([[1.0, 1, 0, 0]])
    assert grouped_mmd(torch.ones(4, 2), first, torch.ones(4))[0].item() == pytest.approx(0, abs=1e-6)


def test_reversed_gradient_passes_values_and_turns_gradients() -> None:
    x = torch.randn(5, generator=generator(), requires_grad=True)
    y = reversed_gradient(x, 0.7)
    torch.testing.assert_close(y, x)
    (gradient,) = torch.autograd.grad((3 * y).sum(), x)
    torch.testing.assert_close(gradient, torch.full((5,), -0.7 * 3))
