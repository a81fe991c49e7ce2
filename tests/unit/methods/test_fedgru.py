"""FedGRU is torch's own recurrent net under federated averaging, of the size that its section gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.fedgru import FedGru, GruForecaster


@pytest.mark.parametrize(("layers", "numbers"), [(2, 38_604), (1, 13_644)])
def test_it_has_the_published_size(metr_la_sized: ForecastTask, layers: int, numbers: int) -> None:
    method = FedGru(FedGru.Params(layers=layers))
    assert set(method.parameters(metr_la_sized, method.client(metr_la_sized)).tolist()) == {numbers}


def test_it_is_torch_s_own_network() -> None:
    task = problem().task()
    ours = GruForecaster(task.horizon, hidden=7, layers=2).double()
    theirs = nn.GRU(1, 7, 2, batch_first=True).double()
    for layer, own in enumerate(ours.layers):
        for name, value in own.named_parameters():
            theirs.get_parameter(name.replace("l0", f"l{layer}")).data.copy_(value)
    batch = task.batch("train", torch.tensor([0]), torch.arange(9)[None])
    first = type(batch)(*(part[0] for part in batch))
    torch.testing.assert_close(ours(first), ours.output(theirs(first.x[..., None])[0][:, -1]))


def test_all_of_it_crosses_once_a_round_each_way() -> None:
    federation = Federation(FedGru(FedGru.Params(hidden=7)), problem().task(), PROTOCOL, seed=0)
    state = federation.run(federation.start())
    for direction in ("bytes_up", "bytes_down"):
        found = {v for _, client, quantity, v in state.log if quantity == direction and client != "e"}
        assert found == {4.0 * federation.parameters}


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    assert together_by_heart(FedGru(FedGru.Params(lr=5e-3, hidden=32)), 10, 20) < 0.01
