"""FFTS: experts that a token chooses, held near the global ones, and moved half-way by the server."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fedloom.check.problems import PROTOCOL, series_problem
from fedloom.federation.method import Uploads
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import matching
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.ffts import FFTS, AdaptiveTrend
from fedloom.models.patch_transformer import PatchTransformerModel

MODEL = PatchTransformerModel(PatchTransformerModel.Params(width=8, layers=2, heads=2))


def trend() -> AdaptiveTrend:
    torch.manual_seed(0)
    return AdaptiveTrend(8, 16, 3).double()


def codes() -> torch.Tensor:
    return torch.randn(5, 16, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(
    ("length", "patch", "sizes"), [(256, 16, (64, 2, 4)), (512, 16, (128, 3, 8)), (512, 32, (512, 9, 8))]
)
def test_trend_modules_add_a_tenth(length: int, patch: int, sizes: tuple[int, int, int]) -> None:
    task = SimpleNamespace(patch=patch, tokens=length // patch, length=length)
    model = PatchTransformerModel(PatchTransformerModel.Params(*sizes))
    with torch.device("meta"):
        grown, plain = FFTS(None, model).client(task), model.build(task)
    ratio = sum(p.numel() for p in grown.parameters()) / sum(p.numel() for p in plain.parameters())
    assert ratio == pytest.approx(118.94 / 108.41, abs=0.01)


def test_each_token_uses_two_experts_whose_weights_sum_to_one() -> None:
    weight = trend().weights(codes())
    assert ((weight > 0).sum(-1) == 2).all()
    torch.testing.assert_close(weight.sum(-1), torch.ones(5, 16, dtype=torch.float64))


def test_the_output_is_the_input_plus_the_chosen_experts() -> None:
    module, h = trend(), codes()
    x = module.norm(h)
    weight = module.weights(x)
    experts = [
        module.scale[e]
        * (
            torch.nn.functional.gelu(x @ module.inner[e] + module.inner_bias[e]) @ module.outer[e]
            + module.outer_bias[e]
        )
        for e in range(4)
    ]
    expected = h + sum(weight[..., e : e + 1] * experts[e] for e in range(4))
    torch.testing.assert_close(module(h), expected)


def test_a_window_is_answered_the_same_whatever_stands_beside_it() -> None:
    module, h = trend(), codes()
    torch.testing.assert_close(module(h)[:2], module(h[:2]))


def test_the_backbone_starts_where_that_of_other_methods_does() -> None:
    task = series_problem().task()
    ours, plain = (Federation(kind(None, MODEL), task, PROTOCOL, 0).start() for kind in (FFTS, FedAvg))
    for name in plain.server:
        assert torch.equal(ours.server[name], plain.server[name])


def test_the_server_moves_its_experts_half_way_and_the_rest_all_the_way() -> None:
    method = FFTS(None, MODEL)
    server = {"adapters.0.scale": torch.tensor([1.0]), "head.bias": torch.tensor([1.0])}
    uploads = Uploads(torch.arange(2), torch.tensor([1, 3]), {n: torch.tensor([[1.0], [5.0]]) for n in server})
    moved = method.aggregate(server, uploads)
    assert moved["adapters.0.scale"].item() == pytest.approx(2.5)
    assert moved["head.bias"].item() == pytest.approx(4.0)


def test_a_large_lambda_holds_experts_where_they_came_down() -> None:
    protocol = replace(PROTOCOL, rounds=1)
    moved = {}
    for weight in (0.0, 1e4):
        method = FFTS(FFTS.Params(weight=weight, momentum=0.0), MODEL)
        federation = Federation(method, series_problem().task(protocol), protocol, 0)
        before, after = federation.start(), federation.run(federation.start())
        names = matching(before.server, ("adapters",))
        moved[weight] = sum(float((after.server[n] - before.server[n]).square().sum()) for n in names)
    assert moved[1e4] < 0.5 * moved[0.0]
