"""``check_method`` finds the faults it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from fedloom.check.method import CHECKS, Subject, check_method
from fedloom.check.problems import HISTORY, HORIZON
from fedloom.errors import InputError
from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse


class LinearForecaster(nn.Linear):
    def __init__(self) -> None:
        super().__init__(HISTORY, HORIZON)

    def forward(self, batch: Windows) -> Tensor:
        return super().forward(batch.x)


class Sound(Method):
    """Federated averaging of a linear forecaster."""

    name, cite, family, shared = "sound", "a method without fault", "forecast", ("weight", "bias")

    def client(self, task: ForecastTask) -> nn.Module:
        return LinearForecaster()

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, Adam(0.01)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        return Outcome(masked_mse(model(batch), batch))


class AveragesOverPadding(Sound):
    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        return Outcome((model(batch) - batch.y).square().mean())


class PrefersTheFirstClient(Sound):
    only_averages = False

    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return server | {n: t[0] for n, t in uploads.tensors.items()}


class DrawsItsOwnNoise(Sound):
    only_averages = False

    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return {n: t + torch.rand_like(t) for n, t in super().aggregate(server, uploads).items()}


class DoesMoreThanAverage(Sound):
    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return {n: 0.9 * t for n, t in super().aggregate(server, uploads).items()}


class PassesByTheRule(Sound):
    averages_uploads = True  # type: ignore[assignment]

    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return server | {n: uploads.mean(t) for n, t in uploads.tensors.items()}


class PeeksAtTheTest(Sound):
    peek = 0.0

    def client(self, task: ForecastTask) -> nn.Module:
        self.peek = float(task.raw[:, -1].nan_to_num().sum())
        return LinearForecaster()

    def download(self, server: dict[str, Tensor], clients: Clients) -> dict[str, Tensor]:
        return {n: t + self.peek for n, t in super().download(server, clients).items()}


def test_a_sound_method_passes() -> None:
    check_method(Sound)


@pytest.mark.parametrize(("name", "family"), [("fedavg", "forecast"), ("fedavg", "trajectory"), ("ffts", "forecast")])
def test_a_registered_method_is_checked_by_its_name(name: str, family: str) -> None:
    check_method(name, family=family)


def test_a_wrong_name_or_parameter_of_a_method_to_check_is_said_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^method: expected one of .*; found 'fedavgg'"):
        check_method("fedavgg")
    with pytest.raises(InputError, match=r"^method fedprox: parameter: expected one of .*; found 'nu'$"):
        check_method("fedprox", {"nu": 1})
    with pytest.raises(InputError, match=r"^family: expected one of .*; found 'forecasts'"):
        check_method("fedavg", family="forecasts")


@pytest.mark.parametrize(
    ("make", "check", "complaint"),
    [
        (AveragesOverPadding, "chunks_change_nothing", "mean taken over padding"),
        (PrefersTheFirstClient, "client_order_changes_nothing", "use positions"),
        (DoesMoreThanAverage, "one_client_needs_no_server", "only_averages"),
        (PassesByTheRule, "median_holds_garbage_back", "mean taken without"),
        (PeeksAtTheTest, "test_part_is_never_read", "test values move"),
        (DrawsItsOwnNoise, "seed_decides", "randomness that does not come from the seed"),
    ],
)
def test_a_fault_is_named(make: Callable[[], Method], check: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        CHECKS[check](Subject(make))


def test_dropout_that_draws_for_itself_is_refused() -> None:
    class Drops(Sound):
        def client(self, task: ForecastTask) -> nn.Module:
            return nn.Sequential(LinearForecaster(), nn.Dropout(0.1))

    with pytest.raises(TypeError, match=r"Step\.noise"):
        check_method(Drops)


def test_a_method_without_citation_is_refused() -> None:
    with pytest.raises(TypeError, match="cite"):
        type("Uncited", (Method,), {"name": "uncited"})
