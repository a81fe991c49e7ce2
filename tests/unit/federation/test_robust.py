"""Server rules: what a minority of bad uploads can and cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import trim_mean
from torch import Tensor

from fedloom.check.problems.forecast import ForecastProblem
from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.robust import ServerRule, finite_uploads
from fedloom.federation.rounds import Federation
from fedloom.methods.atlas import Atlas
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fuels import Fuels
from fedloom.models.forecaster import Forecaster


def combined(rule: ServerRule, values: Tensor, around: Tensor | None = None) -> Tensor:
    held = {} if around is None else {"a": around}
    return rule.combined({"a": values}, torch.ones(len(values)), held)["a"]


@pytest.mark.parametrize("clients", [1, 2, 5, 8, 9])
def test_the_median_is_that_of_each_coordinate(clients: int) -> None:
    values = torch.randn(clients, 3, 4, dtype=torch.float64)
    assert torch.allclose(combined(ServerRule("median"), values), torch.from_numpy(np.median(values.numpy(), axis=0)))


@pytest.mark.parametrize(("clients", "bad"), [(5, 2), (8, 3), (9, 4), (2, 0)])
def test_garbage_of_a_minority_leaves_the_median_among_the_honest(clients: int, bad: int) -> None:
    values = torch.randn(clients, 6)
    values[:bad] = 1e6 * torch.randn(bad, 6)
    found, honest = combined(ServerRule("median"), values), values[bad:]
    assert ((found >= honest.amin(0)) & (found <= honest.amax(0))).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.45])
def test_the_trimmed_mean_is_that_of_scipy(share: float) -> None:
    values = torch.randn(11, 4, dtype=torch.float64)
    expected = torch.from_numpy(trim_mean(values.numpy(), share, axis=0))
    assert torch.allclose(combined(ServerRule("trimmed", trim=share), values), expected)


def test_sample_counts_weigh_the_mean_alone() -> None:
    values, weights = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([1, 1, 2])
    found = {kind: ServerRule(kind).combined({"a": values}, weights, {})["a"].item() for kind in ("mean", "median")}
    assert found == {"mean": 2.75, "median": 1.0}


def test_the_mean_of_a_thousand_alike_is_exact_to_their_last_bit() -> None:
    values = 3 + 1e-4 * torch.rand(1000, 50, generator=torch.Generator().manual_seed(0))
    exact = values.double().mean(0).float()
    last_bit = torch.finfo(torch.float32).eps * 2  # of numbers between 2 and 4
    assert (combined(ServerRule(), values) - exact).abs().max() <= last_bit


def test_clipping_bounds_how_far_one_upload_moves_the_server() -> None:
    around = torch.randn(20, dtype=torch.float64)
    values = around + torch.randn(9, 20, dtype=torch.float64)
    values[0] += 1e9
    median = (values - around).norm(dim=1).median()
    assert (combined(ServerRule("clip"), values, around) - around).norm() <= median
    assert (combined(ServerRule("clip", clip=0.5), values, around) - around).norm() <= 0.5 * median


def test_clipping_beyond_all_changes_is_the_mean() -> None:
    around, values = torch.zeros(3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    assert torch.allclose(combined(ServerRule("clip", clip=1e6), values, around), values.mean(0))


def test_clipping_measures_all_tensors_of_an_upload_together() -> None:
    values = {"a": torch.tensor([[3.0], [0.3], [0.0]]), "b": torch.tensor([[4.0], [0.4], [0.5]])}  # lengths 5, .5, .5
    found = ServerRule("clip").combined(values, torch.ones(3), {})
    assert found["a"].item() == pytest.approx((0.3 + 0.3 + 0.0) / 3)
    assert found["b"].item() == pytest.approx((0.4 + 0.4 + 0.5) / 3)


def test_clipping_survives_squares_that_float32_cannot_hold() -> None:
    values = torch.randn(5, 4)
    values[0] = 1e30
    assert torch.isfinite(combined(ServerRule("clip"), values, torch.zeros(4))).all()


def test_an_upload_is_finite_where_all_of_its_numbers_are() -> None:
    sent = {"a": torch.zeros(3, 2), "b": torch.zeros(3), "slot": torch.zeros(3, 1, dtype=torch.int64)}
    sent["a"][1, 0], sent["b"][2] = torch.nan, torch.inf
    assert finite_uploads(sent).tolist() == [True, False, False]


@pytest.mark.parametrize("method", [Fuels(), Atlas(Atlas.Params(upload="dominant"))])
def test_a_server_that_does_not_average_takes_no_rule(method: Method) -> None:
    protocol = Protocol(server_rule=ServerRule("median"))
    with pytest.raises(InputError, match=r"protocol.server_rule: expected mean, found median for"):
        Federation(method, ForecastProblem.small().task(protocol), protocol, 1)


@pytest.mark.parametrize("kind", ["median", "trimmed", "clip"])
@pytest.mark.parametrize(
    "method",
    [
        Atlas(Atlas.Params(encoder="compact", width=8, depth=1)),
        FedAvg(model=Forecaster(Forecaster.Params(encoder="compact", width=8, depth=1))),
    ],
)
def test_every_rule_trains(method: Method, kind: Any) -> None:
    protocol = Protocol(rounds=2, server_rule=ServerRule(kind))
    federation = Federation(method, ForecastProblem.small().task(protocol), protocol, 1)
    plain = Protocol(rounds=2)
    other = Federation(method, ForecastProblem.small().task(plain), plain, 1)
    found, mean = federation.run(federation.start()), other.run(other.start())
    assert found.diverged is None
    assert any(not torch.equal(found.server[name], mean.server[name]) for name in found.server)


def test_shares_and_bounds_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"server_rule.trim: expected a share in \[0, 0.5\), found 0.5"):
        ServerRule("trimmed", trim=0.5)
    with pytest.raises(ValueError, match=r"server_rule.clip: expected more than 0, found 0"):
        ServerRule("clip", clip=0)
