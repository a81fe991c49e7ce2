"""FedAvg, FedProx, FedPer, local and the reference rows do their own arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch import nn

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import ClientModel, Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import SGD
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedper import FedPer
from fedloom.methods.fedprox import FedProx
from fedloom.methods.local import Local
from fedloom.methods.persistence import Persistence
from fedloom.methods.weekly_profile import WeeklyProfile
from fedloom.models.forecaster import Forecaster

MODEL = Forecaster(Forecaster.Params(encoder="compact", width=8, depth=1))


class OneWeight(ClientModel):
    """A model of one weight w and loss (w - mean of the batch's last readings)^2: its steps can be done by hand."""

    name, family, head = "one_weight", "forecast", ()

    @dataclass(frozen=True)
    class Params:
        start: float = 1.0

    def build(self, task: object) -> nn.Module:
        module = nn.Module()
        module.w = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
        module.forward = lambda batch: module.w.expand(*batch.last.shape, 4)
        return module

    def steps(self, phase: Phase, lr: float) -> tuple[Step, ...]:
        return (Step(self.loss, SGD(lr)),)

    def loss(self, model: Bound, batch: tuple, moment: Moment) -> Outcome:
        target = (batch.last * batch.valid).sum() / batch.valid.sum()
        return Outcome((model["w"] - target).square())


def run(method: Method, seed: int = 0, **protocol: object) -> tuple[Federation, State]:
    settings = replace(PROTOCOL, **protocol)
    federation = Federation(method, problem().task(settings), settings, seed)
    return federation, federation.run(federation.start())


def by_sgd(kind: type[Method], mu: float | None = None) -> Method:
    method = kind(kind.Params() if mu is None else kind.Params(mu=mu), OneWeight(OneWeight.Params()))
    step = Step(method.model.loss, SGD(0.1))
    if mu is not None:
        step = replace(step, loss=partial(method.held, step.loss), anchored=True)
    method.steps = lambda phase: (step,)
    return method


def targets(federation: Federation) -> tuple[torch.Tensor, torch.Tensor]:
    """Each client's mean last reading over its whole training part, and its share of the windows."""
    task = federation.task
    sizes = task.sizes("train")
    able = (sizes > 0).nonzero()[:, 0]
    rows = able[:, None][:, 0]
    means = []
    for client in able.tolist():
        numbers = torch.arange(int(sizes[client]))[None]
        means.append(task.batch("train", torch.tensor([client]), numbers).last.mean())
    return torch.stack(means), (sizes[rows] / sizes[rows].sum()).double()


def test_fedavg_of_one_full_batch_step_is_one_central_step() -> None:
    federation, state = run(by_sgd(FedAvg), rounds=1, batch=1000, train_stride=1)
    mean_C, share_C = targets(federation)
    expected = (share_C * (1 - 0.1 * 2 * (1 - mean_C))).sum()
    torch.testing.assert_close(state.server["w"], expected)


def test_fedprox_adds_the_proximal_gradient_of_every_further_step() -> None:
    mu = 0.5
    federation, state = run(by_sgd(FedProx, mu), rounds=1, batch=1000, train_stride=1, epochs=2)
    mean_C, share_C = targets(federation)
    first = 1 - 0.1 * 2 * (1 - mean_C)
    second = first - 0.1 * (2 * (first - mean_C) + mu * (first - 1))
    torch.testing.assert_close(state.server["w"], (share_C * second).sum())


def test_fedprox_without_its_term_is_fedavg() -> None:
    prox, avg = FedProx(FedProx.Params(mu=0.0), MODEL), FedAvg(FedAvg.Params(), MODEL)
    one, other = run(prox)[1], run(avg)[1]
    assert all(torch.equal(t, other.server[n]) for n, t in one.server.items())


def test_fedavg_judges_one_model_and_local_judges_each_clients_own() -> None:
    federation, state = run(FedAvg(FedAvg.Params(), MODEL))
    assert all(w.stride(0) == 0 for w in federation.weights(state).values())
    federation, state = run(Local(Local.Params(), MODEL))
    assert (state.params["decoder.weight"][0] != state.params["decoder.weight"][1]).any()


def test_fedper_keeps_the_head_at_home() -> None:
    federation, state = run(FedPer(FedPer.Params(), MODEL))
    judged = federation.weights(state)
    assert set(state.server) == {n for n in judged if not n.startswith("decoder")}
    assert (judged["decoder.weight"][0] != judged["decoder.weight"][1]).any()
    up = {v for _, client, quantity, v in state.log if quantity == "bytes_up" and client != "e"}
    head = state.params["decoder.weight"][0].numel() + state.params["decoder.bias"][0].numel()
    assert up == {4.0 * (federation.parameters - head)}


@pytest.mark.parametrize("kind", [FedAvg, FedProx, FedPer, Local])
def test_training_lowers_the_loss(kind: type[Method]) -> None:
    _, state = run(kind(kind.Params(lr=0.01), MODEL), rounds=8)
    losses = [v for _, client, quantity, v in state.log if quantity == "train_loss" and client == "a"]
    assert losses[-1] < 0.7 * losses[0]


def test_the_selected_round_is_the_one_with_the_lowest_validation_score() -> None:
    _, state = run(FedAvg(FedAvg.Params(lr=0.05), MODEL), rounds=8)
    scores = [v for _, _, quantity, v in state.log if quantity == "validation_score"]
    assert state.best.round == scores.index(min(scores))
    assert state.best.score == min(scores)


def test_a_loss_that_is_not_finite_ends_the_run_with_client_round_and_batch() -> None:
    _, state = run(by_sgd_with_rate(1e200), rounds=4)
    assert state.diverged is not None
    assert state.diverged.startswith("loss of client ")
    assert "round" in state.diverged
    assert "batch" in state.diverged


def by_sgd_with_rate(rate: float) -> Method:
    method = FedAvg(FedAvg.Params(), OneWeight(OneWeight.Params()))
    method.steps = lambda phase: (Step(method.model.loss, SGD(rate)),)
    return method


def test_persistence_repeats_the_last_observed_reading() -> None:
    federation, _ = run(Persistence())
    task = federation.task
    rows, numbers = torch.arange(5), torch.arange(10).expand(5, -1)
    batch = task.batch("test", rows, numbers)
    forecast = task.unscale(federation.method.predict(federation.skeleton, batch, Moment({}, {})), rows)
    first = task.starts["test"][rows[:, None], numbers]
    for client in range(5):
        for window in range(10):
            upto = task.raw[client, : first[client, window] + task.history]
            last = upto[~upto.isnan()][-1]
            torch.testing.assert_close(forecast[client, window], last.expand(task.horizon))


def test_the_weekly_profile_is_the_mean_of_what_was_seen_at_that_slot() -> None:
    federation, state = run(WeeklyProfile(), train_stride=1)
    task, client = federation.task, 0
    numbers = torch.arange(int(task.sizes("train")[client]))[None]
    batch = task.batch("train", torch.tensor([client]), numbers)
    slots = federation.skeleton.slots(batch)[0]
    slot = int(slots[5, 0])
    seen = batch.y[0][(slots == slot) & (batch.mask[0] > 0)]
    torch.testing.assert_close(state.buffers["total"][client, slot] / state.buffers["count"][client, slot], seen.mean())
