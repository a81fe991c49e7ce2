"""Atlas: sizes as published, what is shared, and what its ablations change."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Moment, Uploads
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound
from fedloom.methods.atlas import Atlas, CodebookForecaster
from fedloom.models.forecaster import Forecaster

METR_LA = SimpleNamespace(history=12, horizon=12, slots_per_day=288)


def size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def trained(**params: object) -> tuple[Federation, State]:
    small = {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4}
    federation = Federation(Atlas(Atlas.Params(**(small | params))), problem().task(), PROTOCOL, seed=0)
    return federation, federation.run(federation.start())


def bytes_up(state: State) -> set[float]:
    return {value for _, client, quantity, value in state.log if quantity == "bytes_up" and client != "e"}


@pytest.mark.parametrize(("encoder", "expected"), [("wide", 119_020), ("compact", 31_516)])
def test_parameter_counts_at_the_papers_sizes(encoder: str, expected: int) -> None:
    assert size(CodebookForecaster(METR_LA, Atlas.Params(encoder=encoder))) == expected


@pytest.mark.parametrize(("encoder", "expected"), [("wide", 118_380), ("compact", 30_876)])
def test_the_forecaster_is_atlas_without_its_codebook(encoder: str, expected: int) -> None:
    assert size(Forecaster(Forecaster.Params(encoder=encoder)).build(METR_LA)) == expected


def test_a_forecast_is_a_mixture_of_as_many_curves_as_prototypes() -> None:
    federation, state = trained()
    task = federation.task
    batch = task.batch("train", torch.tensor([0]), torch.arange(20)[None])
    own = {n: w[0] for n, w in federation.weights(state).items()}
    module = federation.skeleton
    forecast, weight = torch.func.functional_call(_Read(module), {f"m.{n}": t for n, t in own.items()}, (batch,))
    curves = own["codebook"] @ own["decoder.weight"].T + own["decoder.bias"]
    torch.testing.assert_close(forecast[0], weight[0] @ curves)
    torch.testing.assert_close(weight.sum(-1), torch.ones_like(weight[..., 0]))


class _Read(torch.nn.Module):
    def __init__(self, m: torch.nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, batch: tuple) -> tuple:
        return self.m.read(batch)


@pytest.mark.parametrize(
    ("variant", "numbers"),
    [
        ({}, 4 * 8),
        ({"codebook": "local"}, 0),
        ({"codebook": "frozen"}, 0),
        ({"align": False}, 4 * 8),
        ({"upload": "dominant"}, 8 + 1),
    ],
)
def test_a_client_uploads_the_codebook_and_nothing_else(variant: dict, numbers: int) -> None:
    assert bytes_up(trained(**variant)[1]) == {4.0 * numbers}


def test_sharing_everything_uploads_every_parameter() -> None:
    federation, state = trained(share="all")
    assert bytes_up(state) == {4.0 * federation.parameters}


def test_encoders_stay_with_their_clients_and_the_codebook_is_one() -> None:
    federation, state = trained()
    weights = federation.weights(state)
    assert (weights["codebook"] == weights["codebook"][:1]).all()
    assert (weights["encoder.window.weight"][0] != weights["encoder.window.weight"][1]).any()


def test_without_a_non_identity_permutation_a4_equals_atlas() -> None:
    _, state = trained()
    permuted = [v for _, _, quantity, v in state.log if quantity == "permuted_share"]
    assert permuted == [0.0] * PROTOCOL.rounds
    other = trained(align=False)
    assert all(torch.equal(p, other[1].params[n]) for n, p in state.params.items())


def test_permuted_uploads_average_to_the_codebook_they_permute() -> None:
    method = Atlas()
    anchor = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    shuffles = [torch.randperm(10, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    rows = torch.stack([anchor[s] for s in shuffles])
    uploads = Uploads(torch.arange(3), torch.tensor([1, 2, 3]), {"codebook": rows})
    after = method.aggregate({"codebook": anchor}, uploads)
    torch.testing.assert_close(after["codebook"], anchor)
    assert after["permuted"].all()
    unaligned = Atlas(Atlas.Params(align=False)).aggregate({"codebook": anchor}, uploads)
    assert (unaligned["codebook"] - anchor).abs().max() > 0.1


def test_dominant_rows_are_averaged_at_their_nearest_slot_and_others_stay() -> None:
    method = Atlas(Atlas.Params(upload="dominant"))
    anchor = torch.eye(4)
    rows = torch.tensor([[0.0, 2.0, 0.1, 0.0], [0.0, 4.0, 0.0, 0.1], [0.0, 0.0, 0.0, 3.0]])
    uploads = Uploads(torch.arange(3), torch.tensor([1, 3, 5]), {"row": rows, "slot": torch.tensor([[1], [1], [0]])})
    after = method.aggregate({"codebook": anchor}, uploads)
    torch.testing.assert_close(after["codebook"][1], (rows[0] + 3 * rows[1]) / 4)
    torch.testing.assert_close(after["codebook"][3], rows[2])
    assert torch.equal(after["codebook"][[0, 2]], anchor[[0, 2]])
    assert after["permuted"].tolist() == [False, False, True]


def test_hard_assignment_gives_at_most_as_many_forecasts_as_prototypes() -> None:
    federation, state = trained(assignment="hard")
    task = federation.task
    batch = task.batch("train", torch.tensor([0]), torch.arange(40)[None])
    own = {n: w[0] for n, w in federation.weights(state).items()}
    forecast, weight = torch.func.functional_call(
        _Read(federation.skeleton), {f"m.{n}": t for n, t in own.items()}, (batch,)
    )
    assert ((weight - 1).abs() < 1e-12).sum() == 40
    assert len(torch.unique(forecast[0].round(decimals=9), dim=0)) <= 4


def test_a_frozen_codebook_is_the_one_the_server_drew() -> None:
    federation, state = trained(codebook="frozen")
    drawn = federation.start().server["codebook"]
    assert (state.params["codebook"][:4] == drawn).all()


def test_a_shared_start_is_one_codebook_and_an_own_start_is_not() -> None:
    once = replace(PROTOCOL, rounds=1, train_stride=1000)
    shared, own = (
        Federation(Atlas(Atlas.Params(codebook=kind, encoder="compact", lr=1e-12)), problem().task(once), once, 0)
        for kind in ("local_shared_start", "local")
    )
    one, other = (f.run(f.start()).params["codebook"] for f in (shared, own))
    torch.testing.assert_close(one[0], one[1], atol=1e-9, rtol=0)
    assert (other[0] - other[1]).abs().max() > 0.1


def test_a_missing_target_has_no_influence() -> None:
    given = problem()
    task = given.task()
    batch = task.batch("train", torch.tensor([0]), torch.arange(10)[None])
    poisoned = batch._replace(y=torch.where(batch.mask > 0, batch.y, 1e9))
    federation, state = trained()
    own = {n: w[0] for n, w in federation.weights(state).items()}
    losses = [
        federation.method.loss(Bound(federation.skeleton, own), type(b)(*(part[0] for part in b)), Moment({}, {})).loss
        for b in (batch, poisoned)
    ]
    assert losses[0] == losses[1]
