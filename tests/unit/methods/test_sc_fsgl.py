"""SC-FSGL sends its codebook, looks back by one round, and its extractor and penalty are what others compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask, Windows
from fedloom.methods.sc_fsgl import Extractor, ScFsgl, invariance

SMALL = ScFsgl.Params(width=6, prototypes=4, code=3)


def first_windows(task: ForecastTask, count: int) -> Windows:
    batch = task.batch("train", torch.tensor([0]), torch.arange(count)[None])
    return Windows(*(part[0] for part in batch))


def test_it_trains_some_thirty_thousand_numbers(metr_la_sized: ForecastTask) -> None:
    method = ScFsgl()
    module = method.client(metr_la_sized)
    trained = sum(p.numel() for p in module.parameters())
    assert trained == 32_988
    extractor = sum(p.numel() for p in module.extractor.parameters())
    assert set(method.parameters(metr_la_sized, module).tolist()) == {trained + extractor}


def test_the_codebook_and_nothing_else_crosses_once_each_way() -> None:
    federation = Federation(ScFsgl(), problem().task(), replace(PROTOCOL, rounds=1), seed=0)
    state = federation.run(federation.start())
    for direction in ("bytes_up", "bytes_down"):
        assert {v for _, c, q, v in state.log if q == direction and c != "e"} == {4.0 * 2_048}


def test_the_extractor_is_layers_on_one_hot_calendars_and_torch_s_own_gru() -> None:
    task = problem().task()
    ours, batch = Extractor(task, 5, 3).double(), first_windows(task, 30)
    stamps = torch.arange(30)[:, None] + torch.arange(12)  # hours since a Monday
    calendar = torch.cat([one_hot(stamps % 24, 24), one_hot(stamps // 24 % 7, DAYS_PER_WEEK)], -1).double()
    inner = nn.Linear(24 + DAYS_PER_WEEK, 3).double()
    inner.weight.data.copy_(torch.cat([ours.time_of_day, ours.weekday]).T)
    inner.bias.data.copy_(ours.bias)
    gru = nn.GRU(4, 5, batch_first=True).double()
    gru.load_state_dict(ours.recurrent.state_dict())
    given = torch.cat([batch.x[..., None], ours.mix(inner(calendar).relu())], -1)
    torch.testing.assert_close(ours(batch), gru(given)[1][0])


def test_the_penalty_is_the_squared_slope_of_each_half_of_the_week() -> None:
    task = problem().task()
    batch = first_windows(task, 21)
    batch = batch._replace(valid=batch.valid.clone(), mask=batch.mask.clone())
    batch.valid[-1], batch.mask[-1] = 0, 0
    order = torch.randperm(21, generator=torch.Generator().manual_seed(0))
    batch = Windows(*(part[order] for part in batch))
    forecast = torch.randn(21, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = torch.zeros((), dtype=torch.float64)
    for half in (order < 10, (order >= 10) & (order < 20)):  # windows start hour by hour
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        error = ((scale * forecast - batch.y).abs() * batch.mask)[half].sum() / batch.mask[half].sum()
        expected = expected + torch.autograd.grad(error, scale)[0].square()
    torch.testing.assert_close(invariance(forecast, batch, 24), expected)


def test_a_forecast_looks_back_at_the_extractor_that_the_round_began_with() -> None:
    federation = Federation(ScFsgl(SMALL), problem().task(), replace(PROTOCOL, rounds=2), seed=0)
    state = federation.start()
    federation.step(state)
    before = {n: p.clone() for n, p in state.params.items() if n.startswith("extractor.")}
    federation.step(state)
    for name, value in before.items():
        judged = federation.weights(state)
        assert torch.equal(judged[name.replace("extractor", "previous", 1)][:4], value[:4])
        assert not torch.equal(judged[name][:4], value[:4])


def test_masks_of_now_and_then_are_told_apart() -> None:
    task = problem().task()
    module, batch = ScFsgl(SMALL).client(task).double(), first_windows(task, 8)
    own = dict(module.extractor.named_parameters())
    module.previous.load_state_dict(own)
    torch.testing.assert_close(module.read(batch)[0], module.read(batch, own)[0])
    module.previous.recurrent.weight_hh_l0.mul_(2)
    assert (module.read(batch)[0] != module.read(batch, own)[0]).any()


def test_the_rows_of_the_contrast_are_those_that_weigh_most() -> None:
    task = problem().task()
    module = ScFsgl(SMALL).client(task).double()
    _, query, nearest, second = module.read(first_windows(task, 8))
    rank = (query @ module.codebook.T).argsort(-1, descending=True)
    torch.testing.assert_close(nearest, module.codebook[rank[:, 0]])
    torch.testing.assert_close(second, module.codebook[rank[:, 1]])


@pytest.mark.parametrize("weight", ["contrast", "invariance"])
def test_each_term_moves_the_weights(weight: str) -> None:
    ends = []
    for value in (0.0, 1.0):
        method = ScFsgl(replace(SMALL, **{weight: value}))
        federation = Federation(method, problem().task(), replace(PROTOCOL, rounds=1), seed=0)
        ends.append(federation.run(federation.start()).params["query.weight"])
    assert (ends[0] != ends[1]).any()


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    assert together_by_heart(ScFsgl(ScFsgl.Params(lr=1e-2, width=32)), 5, 20) < 0.005
