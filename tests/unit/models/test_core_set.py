"""Core-sets: gradient matching, drawing of rows, and noise that keeps phases."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedloom.models.layers.core_set import DRAW_AT_ONCE, amplitude_noise, draw, standardised
from fedloom.models.layers.gradient_matching import matched, mismatch

ROWS, LENGTH = 6, 24


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def waves(count: int) -> Tensor:
    phase = 6 * torch.rand(count, 1, generator=generator(), dtype=torch.float64)
    noise = 0.3 * torch.randn(count, LENGTH, generator=generator(1), dtype=torch.float64)
    return standardised(torch.sin(torch.arange(LENGTH) / 2 + phase) + noise)


WEIGHTS = {
    "inner": torch.randn(LENGTH // 2, 8, generator=generator(2), dtype=torch.float64) / 4,
    "outer": torch.randn(8, LENGTH // 2, generator=generator(3), dtype=torch.float64) / 3,
}


def loss(weights: dict[str, Tensor], rows: Tensor) -> Tensor:
    """A toy net rebuilds the second half of a row from its first."""
    given, wanted = rows.split(LENGTH // 2, -1)
    return (torch.tanh(given @ weights["inner"]) @ weights["outer"] - wanted).square().mean()


def fresh(rows: Tensor) -> dict[str, Tensor]:
    zeros = torch.zeros_like(rows)
    return {"learned": rows, "first": zeros, "second": zeros, "count": torch.zeros(1, dtype=torch.float64)}


def test_matching_falls_at_least_fivefold_in_thirty_steps() -> None:
    target = torch.func.grad(loss)(WEIGHTS, waves(64))
    found, ends = matched(loss, WEIGHTS, target, fresh(waves(80)[64 : 64 + ROWS]), steps=30)
    assert ends[0] / ends[1] >= 5
    assert mismatch(loss, WEIGHTS, target, found["learned"]).item() == pytest.approx(ends[1].item())


def test_matching_in_pieces_is_matching_at_once() -> None:
    target = torch.func.grad(loss)(WEIGHTS, waves(64))
    whole, _ = matched(loss, WEIGHTS, target, fresh(waves(ROWS)), steps=6)
    half, _ = matched(loss, WEIGHTS, target, fresh(waves(ROWS)), steps=3)
    rest, _ = matched(loss, WEIGHTS, target, half, steps=3)
    torch.testing.assert_close(rest["learned"], whole["learned"])


def test_the_steps_are_adams() -> None:
    target = torch.func.grad(loss)(WEIGHTS, waves(64))
    rows = torch.nn.Parameter(waves(ROWS).clone())
    adam = torch.optim.Adam([rows], lr=0.05)
    for _ in range(5):
        adam.zero_grad()
        rows.grad = torch.func.grad(lambda r: mismatch(loss, WEIGHTS, target, r))(rows.detach())
        adam.step()
    found, _ = matched(loss, WEIGHTS, target, fresh(waves(ROWS)), steps=5)
    torch.testing.assert_close(found["learned"], rows.detach(), rtol=0, atol=1e-9)


def test_the_real_batch_itself_matches() -> None:
    target = torch.func.grad(loss)(WEIGHTS, waves(ROWS))
    assert mismatch(loss, WEIGHTS, target, waves(ROWS)).item() < 1e-20
    assert mismatch(loss, WEIGHTS, target, waves(ROWS) + 0.1).item() > 1e-6


@pytest.mark.parametrize("length", [24, 25])
def test_noise_keeps_every_phase_and_moves_amplitudes(length: int) -> None:
    rows = torch.randn(5, length, generator=generator(), dtype=torch.float64)
    draws = torch.randn(5, length, generator=generator(1), dtype=torch.float64)
    noisy = amplitude_noise(rows, draws, 0.3)
    assert noisy.shape == rows.shape
    assert noisy.dtype == rows.dtype
    before, after = torch.fft.rfft(rows), torch.fft.rfft(noisy)
    torch.testing.assert_close(after / after.abs(), before / before.abs(), rtol=0, atol=1e-5)
    ratio = after.abs() / before.abs()
    torch.testing.assert_close(ratio, 1 + 0.3 * draws[:, : ratio.shape[1]], rtol=0, atol=1e-9)


def test_strong_noise_removes_a_bin_rather_than_turn_it() -> None:
    rows = torch.randn(5, 24, generator=generator(), dtype=torch.float64)
    spectrum = torch.fft.rfft(amplitude_noise(rows, torch.full((5, 24), -4.0, dtype=torch.float64), 1.0))
    assert spectrum.abs().max() < 1e-12


def test_rows_are_cut_and_standardised() -> None:
    rows = standardised(torch.tensor([[0.0, 1, 2, 1000]], dtype=torch.float64))
    torch.testing.assert_close(rows, standardised(torch.tensor([[0.0, 1, 2, 5]], dtype=torch.float64)))
    assert rows.mean().item() == pytest.approx(0, abs=1e-12)
    assert rows.square().mean().item() == pytest.approx(1, abs=1e-6)


def test_minibatches_fill_the_core_set_one_after_the_other() -> None:
    count = DRAW_AT_ONCE + 3
    old = {"initial": torch.zeros(count, LENGTH), "turn": torch.zeros(1)}
    masks = torch.rand(count, 4, generator=generator())
    batches = [torch.randn(20, LENGTH, generator=generator(s)) for s in (0, 1)]
    for batch in batches:
        old |= draw(batch, torch.ones_like(batch), old, masks)
    taken = torch.cat([batches[0][:DRAW_AT_ONCE], batches[1][:3]])
    expected = (taken - taken.mean(-1, keepdim=True)) / taken.std(-1, correction=0, keepdim=True)
    torch.testing.assert_close(old["initial"], expected)
    assert (old["hidden"].sum(1) == 3).all()
