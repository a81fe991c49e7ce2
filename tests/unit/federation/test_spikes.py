"""The contract carries the families to come: coupled forward passes, several optimisers, server training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedloom.check.method import check_method
from fedloom.check.problems import HISTORY, HORIZON, PROTOCOL, problem
from fedloom.federation.method import Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import SGD, Adam
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import Bound, StackedBound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse


class Split(nn.Module):
    """An encoder whose code travels, and a decoder of what arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(HISTORY, 3), nn.Linear(6, HORIZON)

    def encode(self, x: Tensor) -> Tensor:
        return torch.tanh(self.encoder(x))

    def forward(self, own: Tensor, received: Tensor) -> Tensor:
        return self.decoder(torch.cat([own, received], -1))


class Coupled(Method):
    """Each client forecasts from its own code and those that its neighbours send."""

    name, cite, family, couples = "coupled", "a spike of split learning", "forecast", True

    def client(self, task: ForecastTask) -> nn.Module:
        return Split()

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, SGD(0.05)),)

    def predict(self, model: StackedBound, batch: Windows, moment: Moment) -> Tensor:
        code_CBD = model(batch.x, method="encode")
        received = moment.exchange.gather(moment.exchange.along(code_CBD), len(code_CBD))
        return model(code_CBD, received)

    def loss(self, model: StackedBound, batch: Windows, moment: Moment) -> Outcome:
        squared = (self.predict(model, batch, moment) - batch.y).square() * batch.mask
        return Outcome(squared.sum((1, 2)) / batch.mask.sum((1, 2)).clamp(min=1))


class Adversaries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = nn.Linear(HISTORY, HORIZON), nn.Linear(HORIZON, 1)

    def forward(self, batch: Windows) -> Tensor:
        return self.generator(batch.x)


class TwoOptimisers(Method):
    """A generator and a critic, each with its own loss, parameters and optimiser; the critic steps twice."""

    name, cite, family = "two_optimisers", "a spike of adversarial training", "forecast"
    shared = ("generator",)

    @dataclass(frozen=True)
    class Params:
        lr: float = 0.01

    def client(self, task: ForecastTask) -> nn.Module:
        return Adversaries()

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (
            Step(self.criticise, SGD(0.05, clip=1.0), ("critic",), name="critic", repeat=2),
            Step(self.loss, Adam(self.params.lr), ("generator",), name="generator"),
        )

    def criticise(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        real, made = batch.y, model(batch).detach()
        score = nn.functional.linear(real - made, model["critic.weight"], model["critic.bias"])
        return Outcome((score.square() * batch.valid[..., None]).sum() / batch.valid.sum())

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        score = nn.functional.linear(model(batch), model["critic.weight"], model["critic.bias"])
        return Outcome(
            masked_mse(model(batch), batch) - 0.01 * (score * batch.valid[..., None]).sum() / batch.valid.sum()
        )


class ServerTrained(Method):
    """Clients upload a head; the server trains a correction of its own on what it received and sends both down."""

    name, cite, family, only_averages = "server_trained", "a spike of server-side training", "forecast", False
    shared = ("weight", "bias")

    def client(self, task: ForecastTask) -> nn.Module:
        return LinearForecaster()

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        return (Phase(participation=0.5),)

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, Adam(0.01)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        return Outcome(masked_mse(model(batch), batch))

    def server(self, task: ForecastTask, start: dict[str, Tensor]) -> dict[str, Tensor]:
        trained = {"anchor": start["weight"][None].clone()}
        moments = Adam(0.01).start(trained)
        return {n: start[n] for n in self.shared} | trained | {f"moments/{n}": t for n, t in moments.items()}

    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return super().aggregate(server, uploads) | {"received": uploads.mean(uploads["weight"])}

    def serve(
        self, server: dict[str, Tensor], task: ForecastTask, round_: int, rounds: int, seed: int
    ) -> dict[str, Tensor]:
        anchor = server["anchor"].detach().requires_grad_()
        (gradient,) = torch.autograd.grad((anchor[0] - server["received"]).square().sum(), anchor)
        trained = {"anchor": server["anchor"].clone()}
        moments = {n.removeprefix("moments/"): t.clone() for n, t in server.items() if n.startswith("moments/")}
        Adam(0.01).step(trained, {"anchor": gradient}, moments)
        return server | trained | {f"moments/{n}": t for n, t in moments.items()}


class LinearForecaster(nn.Linear):
    def __init__(self) -> None:
        super().__init__(HISTORY, HORIZON)

    def forward(self, batch: Windows) -> Tensor:
        return super().forward(batch.x)


@pytest.mark.parametrize("method", [Coupled, TwoOptimisers, ServerTrained])
def test_spike_has_every_property(method: type[Method]) -> None:
    check_method(method)


def test_coupled_training_equals_the_same_network_built_in_one_place() -> None:
    task = problem(equal=True).task()
    protocol = replace(PROTOCOL, rounds=1, batch=1000, train_stride=1)
    federation = Federation(Coupled(), task, protocol, seed=0)
    state = federation.start()
    modules = [Split().double() for _ in task.ids]
    for client, module in enumerate(modules):
        module.load_state_dict({n: p[client] for n, p in state.params.items()})
    rows, numbers = torch.arange(len(task.ids)), torch.arange(int(task.sizes("train")[0])).expand(len(task.ids), -1)
    batch = task.batch("train", rows, numbers)
    codes = [module.encode(batch.x[c]) for c, module in enumerate(modules)]
    loss = torch.zeros((), dtype=torch.float64)
    for c, module in enumerate(modules):
        received = sum(codes[s] for s, d in task.edges.T.tolist() if d == c)
        own = Windows(*(part[c] for part in batch))
        loss = loss + masked_mse(module(codes[c], received), own)
    loss.backward()
    federation.run(state)
    for client, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            expected = parameter.detach() - 0.05 * parameter.grad
            torch.testing.assert_close(state.params[name][client], expected, rtol=0, atol=1e-10)


def test_coupled_messages_are_charged_forward_and_backward() -> None:
    task = problem(equal=True).task()
    federation = Federation(Coupled(), task, replace(PROTOCOL, rounds=1, train_stride=1), seed=0)
    state = federation.run(federation.start())
    windows, code_width, crossings = int(task.sizes("train")[0]), 3, 2
    charged = {v for _, _, quantity, v in state.log if quantity in ("bytes_up", "bytes_down")}
    assert charged == {4.0 * windows * code_width * crossings}


def test_two_optimisers_touch_their_own_parameters_alone() -> None:
    federation = Federation(TwoOptimisers(), problem().task(), PROTOCOL, seed=0)
    state = federation.run(federation.start())
    assert set(state.moments["generator"]) == {
        f"generator.{p}/{m}" for p in ("weight", "bias") for m in ("mean", "square", "count")
    }
    assert state.moments["critic"] == {}


def test_half_of_the_clients_train_and_the_rest_stay() -> None:
    federation = Federation(ServerTrained(), problem().task(), replace(PROTOCOL, rounds=1), seed=0)
    before = federation.start()
    after = federation.run(federation.start())
    charged = [v > 0 for _, _, quantity, v in after.log if quantity == "bytes_up"]
    moved = [(before.params["weight"][c] != after.params["weight"][c]).any().item() for c in range(len(charged))]
    assert moved == charged
    assert sum(charged) == 2


def test_server_training_moves_the_servers_own_weights() -> None:
    federation = Federation(ServerTrained(), problem().task(), PROTOCOL, seed=0)
    before, after = federation.start(), federation.run(federation.start())
    assert (before.server["anchor"] != after.server["anchor"]).any()
    assert after.server["moments/anchor/count"].item() == PROTOCOL.rounds


def test_functional_call_is_what_bound_does() -> None:
    module = Split().double()
    x = torch.randn(4, HISTORY, dtype=torch.float64)
    tensors = dict(module.named_parameters())
    direct = functional_call(module, tensors, (module.encode(x), module.encode(x)))
    bound = Bound(module, tensors)
    code = bound(x, method="encode")
    assert torch.equal(bound(code, code), direct)
