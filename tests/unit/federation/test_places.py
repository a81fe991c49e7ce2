"""What is wrong at a place of the contract is said in words: where, the name, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedloom.check.method import CHECKS, Subject
from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse

Tensors = dict[str, Tensor]


class Forecaster(nn.Module):
    """A linear forecaster that counts its minibatches."""

    count: Tensor

    def __init__(self, task: ForecastTask) -> None:
        super().__init__()
        self.map = nn.Linear(task.history, task.horizon)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, batch: Windows) -> Tensor:
        return self.map(batch.x)


class Sound(Method):
    """Federated averaging of a linear forecaster."""

    name, cite, family = "sound", "a method without fault", "forecast"
    shared: tuple[str, ...] = ("map",)

    def client(self, task: ForecastTask) -> nn.Module:
        return Forecaster(task)

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, Adam(0.01), ("map",)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        return Outcome(masked_mse(model(batch), batch), buffers={"count": model["count"] + 1})


def trains_nothing_of_its_own(method: Method) -> None:
    steps = method.steps
    method.steps = lambda phase: [replace(step, over=("encodr",)) for step in steps(phase)]


def shares_a_name_that_no_tensor_has(method: Method) -> None:
    type(method).shared = ("codebook",)


def shares_a_word(method: Method) -> None:
    type(method).shared = "map"


def keeps_a_name_that_no_tensor_has(method: Method) -> None:
    type(method).personal = ("head",)


def gives(place: str, change: Callable[[Any], Any]) -> Callable[[Method], None]:
    """A method whose ``place`` gives back something else."""

    def spoil(method: Method) -> None:
        whole = getattr(method, place)
        setattr(method, place, lambda *args: change(whole(*args)))

    return spoil


def of_weight(change: Callable[[Tensor], Tensor]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {"map.weight": change(tensors["map.weight"])}


def renamed(tensors: Tensors) -> Tensors:
    return {f"my_{name}": value for name, value in tensors.items()}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            trains_nothing_of_its_own,
            "steps of phase 'train', 'step': over: expected prefixes of parameters (map), found 'encodr'",
        ),
        (
            shares_a_name_that_no_tensor_has,
            "shared: expected prefixes of client tensors (count, map), found 'codebook'",
        ),
        (shares_a_word, "shared: expected a tuple of prefixes, found 'map'"),
        (keeps_a_name_that_no_tensor_has, "personal: expected prefixes of client tensors (count, map), found 'head'"),
        (gives("client", lambda module: module.forward), "client: expected a torch module, found method"),
        (
            gives("phases", lambda phases: (*phases, *phases)),
            "expected a name of its own for each, found ['train', 'tr",
        ),
        (gives("steps", lambda steps: [step.loss for step in steps]), "expected Step(loss, optimiser), found method"),
        (gives("loss", lambda outcome: outcome.loss), "'step': expected Outcome(loss), found Tensor"),
        (gives("loss", lambda o: o._replace(loss=o.loss.expand(4))), "expected a scalar, shape (), found shape (4,)"),
        (
            gives("loss", lambda o: o._replace(loss=o.loss.log() * torch.nan)),
            "loss of client a is not finite in round 0",
        ),
        (gives("loss", lambda o: o._replace(buffers={"n": o.loss})), "expected client buffers (count), found 'n'"),
        (gives("loss", lambda o: o._replace(buffers={"count": o.loss})), "'count': expected shape (1,), found ()"),
        (
            gives("begin", lambda fresh: {"x": torch.zeros(2)}),
            "expected names of client tensors (map.weight, map.bias, ",
        ),
        (gives("upload", of_weight(lambda w: w[0])), "'map.weight': expected a first axis of 2 clients, found (4, 12)"),
        (
            gives("aggregate", of_weight(lambda w: w[None])),
            "'map.weight': expected shape (4, 12) as before, found (1, 4",
        ),
        (gives("aggregate", lambda server: {}), "among what it gives back, found nothing"),
        (gives("aggregate", of_weight(lambda w: w / 0)), "the server's map.weight is not finite after round 0"),
        (
            gives("serve", of_weight(lambda w: w[:2])),
            "serve, 'map.weight': expected shape (4, 12) as before, found (2, ",
        ),
        (
            gives("download", renamed),
            "download: expected names of client tensors (map.weight, map.bias, count), found 'm",
        ),
        (gives("download", of_weight(lambda w: w[:, :1])), "expected shape (2, 4, 12), found (2, 1, 12)"),
        (gives("charged", lambda numbers: numbers.sum()), "charged: expected a number a client, shape (2,), found ()"),
        (
            gives("evaluated", lambda w: {n: t[0] for n, t in w.items()}),
            "expected a first axis of 5 clients, found (4, 1",
        ),
        (gives("predict", lambda forecast: forecast[..., :1]), ", 4), found ("),
        (gives("round_log", lambda log: {"norm": torch.ones(1)}), "round_log, 'norm': expected a float, found Tensor"),
        (
            gives("parameters", lambda numbers: numbers[:1]),
            "parameters: expected a number a client, shape (5,), found (1,)",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(spoil: Callable[[Method], None], said: str) -> None:
    class Spoiled(Sound):
        pass

    def make() -> Method:
        method = Spoiled()
        spoil(method)
        return method

    with pytest.raises(AssertionError) as complaint:
        CHECKS["places_keep_the_contract"](Subject(make))
    assert said in str(complaint.value)
    assert str(complaint.value).startswith("sound: ")


def test_a_loss_that_branches_on_values_is_told_where_it_stands() -> None:
    class Branches(Sound):
        def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
            error = masked_mse(model(batch), batch)
            return Outcome(error if error > 1 else 0 * error)

    with pytest.raises(AssertionError, match=r"sound: loss of steps of phase 'train', 'step': .*vmap"):
        CHECKS["places_keep_the_contract"](Subject(Branches))


def test_edges_must_join_clients() -> None:
    class Coupled(Sound):
        couples = True
        shared = ()

        def edges(self, task: ForecastTask) -> Tensor:
            return torch.tensor([[0, 1], [1, 5]])

        def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
            return Outcome(torch.vmap(masked_mse)(model(batch), batch))

    with pytest.raises(AssertionError, match=r"edges: expected positions of clients, 0 to 4, found \[0, 1, 5\]"):
        CHECKS["places_keep_the_contract"](Subject(Coupled))


def test_a_sound_method_keeps_the_contract() -> None:
    CHECKS["places_keep_the_contract"](Subject(Sound))


def test_what_a_server_aggregates_may_be_called_otherwise() -> None:
    class Renames(Sound):
        only_averages = False

        def upload(self, clients: Clients) -> Tensors:
            return renamed(super().upload(clients))

        def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
            return server | {name: uploads.mean(uploads[f"my_{name}"]) for name in server}

    CHECKS["places_keep_the_contract"](Subject(Renames))
