"""Hidden stretches of test windows: masks, averages, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from fedloom.evaluation.series.masks import RATES, drop_points, hide_tokens
from fedloom.evaluation.series.reconstruction import reconstruct, reconstruction_rows
from fedloom.federation.randomness import derive
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows


def zero(batch: SeriesWindows, rows: Tensor) -> Tensor:
    return torch.zeros_like(batch.x)


def rows_of(task: SeriesTask, chunk: int) -> pd.DataFrame:
    found = pd.DataFrame(reconstruction_rows(reconstruct(task, {None: zero}, chunk), task.ids))
    return found.set_index(["unit", "metric", "condition"])


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_any_chunk_gives_the_same_numbers(task: SeriesTask, chunk: int) -> None:
    one, all_ = rows_of(task, chunk), rows_of(task, 10**9)
    np.testing.assert_allclose(one["value"], all_.loc[one.index, "value"], rtol=1e-9)
    assert (one["n"] == all_.loc[one.index, "n"]).all()


def test_errors_are_means_over_points_then_windows_then_clients_then_rates(task: SeriesTask) -> None:
    found = rows_of(task, 10**9)
    means: dict[float, list[float]] = {rate: [] for rate in RATES}
    for row in range(len(task.ids)):
        rows = torch.tensor([row])
        numbers = torch.arange(int(task.sizes("test")[row]))[None]
        batch = task.batch("test", rows, numbers)
        keys = task.window_keys("test", rows, numbers)
        for rate in RATES:
            _, scored = hide_tokens(batch, keys, rate)
            errors = [
                float(x[s].double().square().mean()) for x, s in zip(batch.x[0], scored[0], strict=True) if s.any()
            ]
            condition = f"rate={rate:g},space=z,task=reconstruction"
            assert found.loc[(task.ids[row], "mse", condition), "value"] == pytest.approx(np.mean(errors), rel=1e-5)
            means[rate].append(float(np.mean(errors)))
    of_all = found.loc[("mean", "mse", "rate=mean,space=z,task=reconstruction"), "value"]
    assert of_all == pytest.approx(np.mean([np.mean(values) for values in means.values()]), rel=1e-5)


def test_what_is_hidden_cannot_be_seen(task: SeriesTask) -> None:
    rows, numbers = next(task.chunks("test", 64))
    batch = task.batch("test", rows, numbers)
    keys = task.window_keys("test", rows, numbers)
    for rate in RATES:
        asked, scored = hide_tokens(batch, keys, rate)
        assert not asked.x[scored].any()
        share = asked.hidden.sum(-1) / asked.hidden.shape[-1]
        assert (share <= rate).all()
    dropped, lost = drop_points(batch, keys, 0.5)
    assert not dropped.x[lost].any()
    observed = batch.seen.sum(-1)
    assert ((lost.sum(-1) - 0.5 * observed).abs() <= 0.5).all()


def test_masks_belong_to_windows_not_to_their_place_in_a_batch(task: SeriesTask) -> None:
    rows, numbers = next(task.chunks("test", 64))
    batch = task.batch("test", rows, numbers)
    keys = task.window_keys("test", rows, numbers)
    turned = SeriesWindows(*(values.flip(1) for values in batch))
    assert torch.equal(
        hide_tokens(turned, keys.flip(1), 0.5)[0].hidden, hide_tokens(batch, keys, 0.5)[0].hidden.flip(1)
    )
    assert not torch.equal(
        hide_tokens(batch, derive(keys.flatten(), 1).view_as(keys), 0.5)[0].hidden,
        hide_tokens(batch, keys, 0.5)[0].hidden,
    )


def test_masks_of_single_points_agree_between_batches(task: SeriesTask) -> None:
    rows, numbers = next(task.chunks("test", 64))
    batch = task.batch("test", rows, numbers)
    keys = task.window_keys("test", rows, numbers)
    one = SeriesWindows(*(values[:, :1] for values in batch))
    assert torch.equal(drop_points(one, keys[:, :1], 0.25)[1], drop_points(batch, keys, 0.25)[1][:, :1])


def test_a_perfect_filling_has_no_error(task: SeriesTask) -> None:
    truth = {}

    def know(batch: SeriesWindows, rows: Tensor) -> Tensor:
        return truth["x"]

    original = task.batch

    def remember(part: str, rows: Tensor, numbers: Tensor) -> SeriesWindows:
        found = original(part, rows, numbers)
        truth["x"] = found.x
        return found

    object.__setattr__(task, "batch", remember)
    found = pd.DataFrame(reconstruction_rows(reconstruct(task, {None: know}, 512), task.ids))
    own = found[~found["condition"].str.contains("prediction")]
    assert (own["value"] == 0).all()
