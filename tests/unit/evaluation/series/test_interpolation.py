"""Reference rows against numpy and pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.evaluation.series.interpolation import FILLS, last_value, linear_interpolation, window_mean


def windows(seed: int, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    visible = rng.random((5, 48)) < share
    visible[:, rng.integers(48)] = True
    x = np.where(visible, rng.normal(size=(5, 48)), 0.0)
    return torch.from_numpy(x), torch.from_numpy(visible)


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_line_between_neighbours_is_numpys_interpolation(seed: int, share: float) -> None:
    x, visible = windows(seed, share)
    found = linear_interpolation(x, visible).numpy()
    for row, values, seen in zip(found, x.numpy(), visible.numpy(), strict=True):
        at = np.arange(48)
        np.testing.assert_allclose(row, np.interp(at, at[seen], values[seen]), atol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_last_value_is_pandas_forward_fill(seed: int, share: float) -> None:
    x, visible = windows(seed, share)
    wanted = pd.DataFrame(np.where(visible.numpy(), x.numpy(), np.nan).T).ffill().bfill().to_numpy().T
    np.testing.assert_allclose(last_value(x, visible).numpy(), wanted)


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_mean_is_that_of_visible_points(seed: int, share: float) -> None:
    x, visible = windows(seed, share)
    wanted = np.nanmean(np.where(visible.numpy(), x.numpy(), np.nan), axis=1)
    np.testing.assert_allclose(window_mean(x, visible).numpy(), np.tile(wanted[:, None], 48))


@pytest.mark.parametrize("name", FILLS)
def test_invisible_values_influence_nothing(name: str) -> None:
    x, visible = windows(1, 0.5)
    other = torch.where(visible, x, 1e6)
    assert torch.equal(FILLS[name](x, visible), FILLS[name](torch.where(visible, x, -3.0), visible))
    assert torch.isfinite(FILLS[name](other, visible)).all()
    assert FILLS[name](other, visible).abs().max() < 10


@pytest.mark.parametrize("name", FILLS)
def test_a_window_without_a_visible_point_is_zero(name: str) -> None:
    assert not FILLS[name](torch.ones(2, 8), torch.zeros(2, 8, dtype=torch.bool)).any()
