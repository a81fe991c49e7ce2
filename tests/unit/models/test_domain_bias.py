"""Domain bias: its decomposition against pooling, its smoothing and gradient, and why its seasonal part is inert."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import avg_pool1d, pad

from fedloom.models.layers.domain_bias import DomainBias, averaging, trend_width


def codes(tokens: int = 16, width: int = 6) -> torch.Tensor:
    return torch.randn(10, tokens, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def module(seasonal: str = "literal", tokens: int = 16) -> DomainBias:
    made = DomainBias(6, tokens, seasonal).double()
    with torch.no_grad():
        made.gamma_trend.copy_(torch.linspace(-1, 1, 6))
        made.gamma_season.copy_(torch.linspace(2, 1, 6))
    return made


@pytest.mark.parametrize(("tokens", "width"), [(16, 5), (32, 9), (64, 25), (3, 3)])
def test_the_trend_is_a_moving_average_with_repeated_ends(tokens: int, width: int) -> None:
    h = codes(tokens)
    pooled = avg_pool1d(pad(h.transpose(1, 2), (width // 2, width // 2), mode="replicate"), width, 1).transpose(1, 2)
    torch.testing.assert_close(averaging(tokens, width).double() @ h, pooled, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("tokens", "width"), [(8, 3), (16, 5), (32, 9), (64, 25)])
def test_the_width_of_the_trend(tokens: int, width: int) -> None:
    assert trend_width(tokens) == width


def test_a_seasonal_mean_of_width_three_is_zero() -> None:
    h = codes(8)
    season = h - averaging(8, 3).double() @ h
    assert season.mean(1).abs().max() < 1e-6
    assert season.square().mean().sqrt() > 0.5


@pytest.mark.parametrize("seasonal", ["literal", "rms"])
def test_the_bias_is_the_scaled_mean_of_trend_and_season(seasonal: str) -> None:
    bias, h = module(seasonal), codes()
    trend = averaging(16, 5).double() @ h
    season = (h - trend).square().mean((0, 1)).sqrt() if seasonal == "rms" else (h - trend).mean((0, 1))
    expected = trend.mean((0, 1)) * bias.gamma_trend + season * bias.gamma_season
    torch.testing.assert_close(bias.of_batch(h, torch.ones(10, 16).double()), expected)


def test_padding_does_not_count() -> None:
    bias, h = module(), codes()
    weight = torch.ones(10, 16).double()
    weight[7:] = 0
    torch.testing.assert_close(bias.of_batch(h, weight), bias.of_batch(h[:7], weight[:7]))


@pytest.mark.parametrize("seasonal", ["literal", "rms"])
def test_the_gradient_of_both_scales_is_that_of_finite_differences(seasonal: str) -> None:
    bias, h, weight = module(seasonal), codes(), torch.ones(10, 16).double()

    def of_scales(trend: torch.Tensor, season: torch.Tensor) -> torch.Tensor:
        scales = {"gamma_trend": trend, "gamma_season": season}
        return torch.func.functional_call(_Smoothed(bias), {f"bias.{n}": v for n, v in scales.items()}, (h, weight))

    scales = [torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(of_scales, scales)


class _Smoothed(torch.nn.Module):
    def __init__(self, bias: DomainBias) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.bias.smoothed(h, weight, 0.9)


def test_without_memory_the_bias_is_that_of_the_batch_and_with_it_a_mixture() -> None:
    bias, h, weight = module(), codes(), torch.ones(10, 16).double()
    bias.bias += 3
    batch = bias.of_batch(h, weight)
    assert torch.equal(bias.smoothed(h, weight, 0.0), batch)
    torch.testing.assert_close(bias.smoothed(h, weight, 0.9), 0.1 * batch + 0.9 * 3)
