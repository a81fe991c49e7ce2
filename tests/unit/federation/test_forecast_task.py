"""What clients of a panel differ in: their own covariates, their role, their horizon."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.data.panels.panel import Panel, no_edges
from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.forecast import ForecastTask, forecast_task

STEPS, HISTORY, HORIZON, TRAIN_END = 40, 6, 3, 28


def task(nodes: dict[str, list] | None = None, features: pd.DataFrame | None = None) -> ForecastTask:
    stamps = pd.date_range("2024-01-01", periods=STEPS, freq="h", name="timestamp")
    values = pd.DataFrame({"a": np.arange(STEPS), "b": np.arange(STEPS) ** 2}, index=stamps, dtype="float32")
    table = pd.DataFrame({"lat": [1.0, np.nan], "lon": [2.0, np.nan]}, index=pd.Index(["a", "b"], name="id"))
    clients = pd.DataFrame({"mean": 0.0, "std": 1.0}, index=["b", "a"])  # in another order than the panel's
    windows = pd.DataFrame([(-1, p, s) for p in ("train", "validation", "test") for s in range(5)])
    partition = {
        "dataset": "own", "history": HISTORY, "horizon": HORIZON, "interval_minutes": 60, "fill": "mean",
        "missing_literal": None, "split": {"train": [0, TRAIN_END]},
    }  # fmt: skip
    given = pd.DataFrame(index=stamps) if features is None else features.set_index(stamps)
    panel = Panel(values, table.assign(**(nodes or {})), no_edges(), given)
    return forecast_task(
        panel,
        partition,
        clients,
        windows.set_axis(["client", "part", "start"], axis=1),
        Protocol(),
        torch.device("cpu"),
    )


def first(given: ForecastTask) -> tuple:
    return given.batch("train", torch.arange(2), torch.tensor([[0, 1], [0, 1]]))


def test_places_follow_the_clients() -> None:
    torch.testing.assert_close(task().places[1], torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert task().places[0].isnan().all()


def test_without_own_covariates_a_batch_has_none() -> None:
    assert first(task(features=pd.DataFrame({"holiday": np.ones(STEPS)}))).own.shape == (2, 2, HISTORY, 0)


def test_own_covariates_are_scaled_by_training_rows_and_padded() -> None:
    rain = np.random.default_rng(0).normal(5, 3, STEPS)
    rain[2] = np.nan
    later = rain.copy()
    later[TRAIN_END:] = 1e6
    table = pd.DataFrame({"rain/a": rain, "wind/a": 1.0, "holiday": 1.0})
    found = first(task(features=table))
    seen = rain[:TRAIN_END][~np.isnan(rain[:TRAIN_END])]
    expected = np.nan_to_num((rain - seen.mean()) / seen.std())
    np.testing.assert_allclose(found.own[1, 1, :, 0], expected[1 : 1 + HISTORY], rtol=1e-5)
    assert not found.own[1, :, :, 1].any()  # constant
    assert not found.own[0].any()  # b has none
    assert task(features=table).owned.tolist() == [0, 2]
    other = first(task(features=table.assign(**{"rain/a": later})))
    torch.testing.assert_close(other.own, found.own, rtol=0, atol=0)


def test_a_passive_client_gives_inputs_and_is_never_scored() -> None:
    found = task({"role": ["passive", "active"]})
    batch, (truth, scored) = first(found), found.truth("test", torch.arange(2), torch.zeros(2, 1, dtype=torch.int64))
    assert batch.x[1].any()
    assert not batch.mask[1].any()
    assert not scored[1].any()
    assert scored[0].all()
    assert not truth.isnan().any()


def test_a_horizon_of_its_own_masks_what_lies_beyond() -> None:
    found = task({"horizon": pd.array([2, None], dtype="Int64")})
    assert first(found).mask[:, 0].tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ({"horizon": [4, 3]}, "horizon of a: expected 1 to 3 steps, found 4"),
        ({"horizon": [3, 0]}, "horizon of b: expected 1 to 3 steps, found 0"),
    ],
)
def test_what_no_client_can_be_is_refused(nodes: dict[str, list], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        task(nodes)
