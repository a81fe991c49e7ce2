"""What evaluation keeps of prototype weights does not depend on batches, and says which windows a client lacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from fedloom.check.problems.forecast import ForecastProblem
from fedloom.evaluation.forecast.assignments import WATCHED, Assignments
from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.federation.tasks.forecast import ForecastTask

PROTOTYPES, WIDTH = 3, 4


@pytest.fixture(scope="module")
def task() -> ForecastTask:
    return ForecastProblem.small().task()


@pytest.fixture(scope="module")
def said(task: ForecastTask) -> tuple[Tensor, Tensor]:
    """Weights [C, W, I] and latent vectors [C, W, D] of all test windows."""
    shape, draw = task.starts["test"].shape, torch.Generator().manual_seed(1)
    weights = torch.rand(*shape, PROTOTYPES, generator=draw).softmax(-1)
    return weights, torch.randn(*shape, WIDTH, generator=draw)


def stream(said: tuple[Tensor, Tensor], batch: int, without: tuple[int, int] | None = None) -> Iterator[Forecasts]:
    """The windows in batches; one client lacks a window where ``without`` says so."""
    clients, windows = said[0].shape[:2]
    numbers = torch.arange(windows).expand(clients, -1).clone()
    if without:
        numbers[without] = -1
    nothing = torch.zeros(0)
    for at in range(0, windows, batch):
        part = slice(at, at + batch)
        heard = {"weights": said[0][:, part], "latent": said[1][:, part]}
        yield Forecasts(nothing, nothing, nothing, numbers[:, part], heard)


def kept(task: ForecastTask, some: Iterator[Forecasts]) -> dict[str, np.ndarray]:
    heard = Assignments(task)
    for each in some:
        heard.add(each)
    return heard.arrays(torch.zeros(len(task.ids), PROTOTYPES, WIDTH))


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_batches_of_any_size_give_the_same(task: ForecastTask, said: tuple[Tensor, Tensor], batch: int) -> None:
    found = kept(task, stream(said, batch))
    assert np.allclose(found["usage"], said[0].mean(1).numpy(), atol=1e-6)
    assert np.array_equal(found["weights"], said[0].numpy()[found["watched"]])
    assert np.array_equal(found["latents"], said[1].numpy()[found["watched"]][:, found["latent_windows"]])


def test_a_window_that_a_client_lacks_counts_for_nothing(task: ForecastTask, said: tuple[Tensor, Tensor]) -> None:
    client = int(Assignments(task).watched_K[0])
    found = kept(task, stream(said, 5, without=(client, 2)))
    others = torch.cat([said[0][client, :2], said[0][client, 3:]]).mean(0)
    assert np.allclose(found["usage"][client], others.numpy(), atol=1e-6)
    assert np.isnan(found["weights"][0, 2]).all()
    assert np.isfinite(found["weights"][0, 3:]).all()


def test_clients_are_watched_by_their_rank_in_mean_reading(task: ForecastTask) -> None:
    watched = Assignments(task).watched_K
    assert len(watched) == min(WATCHED, len(task.ids))
    assert (task.mean[watched].diff() >= 0).all()
