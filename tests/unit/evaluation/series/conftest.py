"""A small task of series and held-out channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedloom.check.problems import series_problem
from fedloom.evaluation.series.finetune import Start
from fedloom.evaluation.series.targets import Channel, Targets
from fedloom.federation.randomness import name_key
from fedloom.federation.tasks.series import SeriesTask
from fedloom.methods.fedavg import FedAvg
from fedloom.models.patch_transformer import PatchTransformer, PatchTransformerModel

LENGTH, PATCH = 64, 8


def _channel(
    case: str,
    name: str = "v",
    points: int = 800,
    bounds: tuple[int, int] = (560, 640),
    season: int = 24,
    label: NDArray[np.int64] | None = None,
    noise: float = 0.2,
    seconds: float = 3600.0,
) -> Channel:
    """A noisy daily wave."""
    rng = np.random.default_rng(name_key(f"{case}/{name}") % 2**32)
    values = np.sin(2 * np.pi * np.arange(points) / 24) + noise * rng.normal(size=points)
    found = torch.tensor(values, dtype=torch.float32)
    return Channel(case, name, found, *bounds, season, seconds, 5.0, 1.0, label)


@pytest.fixture
def channel() -> Callable[..., Channel]:
    """Makes noisy daily waves."""
    return _channel


@pytest.fixture
def task() -> SeriesTask:
    """The small federation that methods are checked on."""
    return series_problem().task()


@pytest.fixture
def start() -> Start:
    """An untrained model to adapt."""

    class Sizes:
        length, patch, tokens = LENGTH, PATCH, LENGTH // PATCH

    model = PatchTransformerModel(PatchTransformerModel.Params(width=16, layers=1, heads=2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = PatchTransformer(Sizes, model.params)  # type: ignore[arg-type]
    tensors = {name: value.detach().clone() for name, value in module.state_dict().items()}
    return Start(FedAvg(model=model), module, tensors, LENGTH, PATCH, 0)


@pytest.fixture
def targets() -> Targets:
    """Held-out sets for every task."""
    label = np.zeros(800, dtype=np.int64)
    label[580:590] = label[700:720] = 1
    cases = [
        _channel(f"motions/{i}", str(k), 40, (40, 40) if i < 8 else (0, 0), label=np.array([i % 2]))
        for i in range(12)
        for k in range(2)
    ]
    by_task = {
        "forecast": {"bikes": [_channel("bikes/0"), _channel("bikes/0", "w")]},
        "imputation": {"bikes": [_channel("bikes/0")]},
        "m4": {"hourly": [_channel(f"hourly/{i}", points=400, bounds=(352, 352)) for i in range(4)]},
        "classification": {"motions": cases},
        "anomaly": {"gait": [_channel("gait/0", str(k), label=label) for k in range(2)]},
    }
    return Targets(by_task)
