"""FeDaL does its own arithmetic: where its parts are off it is FedAvg, and each part does what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedloom.check.problems import LENGTH, PROTOCOL, series_problem
from fedloom.federation.method import Clients, Method, Moment, Phase, Uploads
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.series import SeriesWindows
from fedloom.methods.fedal import MODEL, FeDaL
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedprox import FedProx
from fedloom.models.patch_transformer import PatchTransformer, PatchTransformerModel

SIZES = PatchTransformerModel.Params(width=8, layers=2, heads=2)
WIDTH = SIZES.width
SHORT = replace(PROTOCOL, rounds=2)
CORE = {"core_rows": 4, "core_share": 0.06, "core_steps": 1}
OFF = {"core_rows": 0, "correction": "none"}


def fedal(**params: object) -> FeDaL:
    return FeDaL(FeDaL.Params(**params), PatchTransformerModel(SIZES))


def run(method: Method, **protocol: object) -> tuple[Federation, State]:
    settings = replace(SHORT, **protocol)
    federation = Federation(method, series_problem().task(settings), settings, 0)
    return federation, federation.run(federation.start())


def shared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensors[name] for name in matching(tensors, MODEL)}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def fedavg() -> dict[str, Tensor]:
    return shared(run(FedAvg(FedAvg.Params(), PatchTransformerModel(SIZES)))[1].server)


def test_without_its_parts_it_is_fedavg_to_the_bit() -> None:
    assert_same(shared(run(fedal(dbe=False, **OFF))[1].server), fedavg())


def test_a_bias_of_scale_zero_without_alignment_is_fedavg_to_the_bit() -> None:
    method = fedal(align_weight=0.0, **OFF)
    steps = method.steps
    method.steps = lambda phase: [replace(step, over=MODEL) for step in steps(phase)]
    federation = Federation(method, series_problem().task(SHORT), SHORT, 0)
    state = federation.start()
    for name in ("gamma_trend", "gamma_season"):
        state.params[f"domain.{name}"].zero_()
    assert_same(shared(federation.run(state).server), fedavg())


def test_the_bias_changes_what_is_learned() -> None:
    theta = shared(run(fedal(align_weight=0.0, **OFF))[1].server)
    other = fedavg()
    assert any((theta[name] != other[name]).any() for name in theta)


def test_the_proximal_term_of_weight_zero_is_fedavg_to_the_bit() -> None:
    assert_same(shared(run(FedProx(FedProx.Params(mu=0.0), PatchTransformerModel(SIZES)))[1].server), fedavg())


def test_biases_start_from_the_servers_and_meet_in_their_weighted_mean() -> None:
    federation, first = run(fedal(**OFF), rounds=1)
    sizes = first.server["clients"]
    assert sizes.tolist() == [4]
    weights = federation.task.sizes("train").double()
    mean = (weights[:, None] * first.buffers["domain.bias"]).sum(0) / weights.sum()
    torch.testing.assert_close(first.server["domain.bias"], mean)
    started: list[Tensor] = []
    begin = federation.method.begin

    def watch(phase: Phase, clients: Clients) -> dict[str, Tensor]:
        started.append(clients.buffers["domain.bias"].clone())
        return begin(phase, clients)

    federation.method.begin = watch
    federation.rounds = 2
    federation.run(first)
    torch.testing.assert_close(started[0], mean.expand(4, -1))
    assert first.buffers["domain.bias"].std(0).max() > 0


def test_the_scales_of_the_bias_never_leave_a_client() -> None:
    _, state = run(fedal(**CORE))
    assert not [name for name in state.server if "gamma" in name]
    gammas = state.params["domain.gamma_trend"][:4]
    assert (gammas - gammas.mean(0)).abs().max() > 0
    assert (gammas != 0.1).any()


def test_alignment_pulls_biases_together() -> None:
    spreads = {}
    for weight in (0.0, 100.0):
        _, state = run(fedal(align_weight=weight, **OFF), rounds=4)
        spreads[weight] = state.buffers["domain.bias"][:4].std(0).mean()
    assert spreads[100.0] < spreads[0.0]


def test_everyone_is_judged_by_the_servers_bias_and_keeps_its_own_beside_it() -> None:
    federation, state = run(fedal(**OFF))
    judged = federation.weights(state)
    assert torch.equal(judged["domain.bias"], state.server["domain.bias"].expand(5, -1))
    assert torch.equal(judged["own"], state.buffers["domain.bias"])
    rows = torch.arange(1)
    batch = federation.task.batch("test", rows, torch.arange(3)[None])
    one = type(batch)(*(part[0] for part in batch))
    model = Bound(federation.skeleton, {name: value[0] for name, value in judged.items()})
    own = federation.method.personalised(model, one, Moment({}, {}))
    swapped = model.holding({"domain.bias": state.buffers["domain.bias"][0]})
    assert torch.equal(own, federation.method.predict(swapped, one, Moment({}, {})))
    assert (own != federation.method.predict(model, one, Moment({}, {}))).any()


def test_without_bias_there_is_nothing_personal() -> None:
    assert fedal(dbe=False).personalised is None


# -- core-sets, tuning, fusion ---------------------------------------------------------------------------------------


def test_bytes_are_those_of_theta_the_bias_and_the_rows_that_count() -> None:
    federation, state = run(fedal(**CORE))
    theta = sum(p.numel() for name, p in federation.skeleton.named_parameters() if matching([name], MODEL))
    sizes = federation.task.sizes("train")
    rows = (sizes * 0.06).floor().clamp(max=4).tolist()
    assert len(set(rows)) > 2, "clients with fewer rows than K are what this is about"
    for quantity, extra in (("bytes_up", [r * LENGTH for r in rows]), ("bytes_down", [0] * 5)):
        charged = [v for r, _, q, v in state.log if q == quantity and r == 1]
        assert charged == [4.0 * (theta + WIDTH + e) if n else 0.0 for e, n in zip(extra, sizes, strict=True)]


def test_only_the_rows_that_a_client_may_send_are_sent() -> None:
    federation, state = run(fedal(**CORE))
    sent, size = state.buffers["core.sent"], state.buffers["core.size"][:, 0]
    for client in range(4):
        filled = sent[client].abs().sum(-1) > 0
        assert int(filled.sum()) == int(size[client])
    assert (state.buffers["core.learned"][:4] != state.buffers["core.initial"][:4]).any()
    assert set(federation.weights(state)) & {"core.first", "core.count", "reference"} == set()


def test_matching_is_logged_and_falls() -> None:
    _, state = run(fedal(**(CORE | {"core_steps": 5})))
    begun, ended = ([v for _, _, q, v in state.log if q == name] for name in ("match_begun", "match_ended"))
    assert len(begun) == len(ended) == 2
    assert all(b < a for a, b in zip(begun, ended, strict=True))


def test_normalised_real_windows_under_their_own_masks_match_the_real_ones() -> None:
    module = series_model()
    last = {name: p.detach() for name, p in module.named_parameters() if matching([name], ("layers.1", "norm", "head"))}
    x = torch.randn(6, LENGTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(-1)
    hidden = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)).argsort(-1) < 5

    def gradient(x: Tensor, hidden: Tensor) -> dict[str, Tensor]:
        windows = SeriesWindows(x, torch.ones_like(x), hidden, torch.ones(6, dtype=x.dtype))

        def loss(weights: dict[str, Tensor]) -> Tensor:
            model = Bound(module, weights)
            return model(model(windows, slice(1), method="encode"), windows, 1, method="judged")

        return torch.func.grad(loss)(last)

    real = gradient(x, hidden)
    normalised = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    for mask, same in ((hidden, True), (hidden.roll(1, 1), False)):
        other = gradient(normalised, mask)
        distance = sum((other[name] - real[name]).square().sum().item() for name in real)
        assert (distance < 1e-18) is same


def series_model() -> PatchTransformer:
    torch.manual_seed(0)
    return PatchTransformer(series_problem().task(), SIZES).double()


def served(method: FeDaL, rows: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The server before and after its own work, with ``rows`` core-set rows of each of two clients."""
    federation = Federation(method, series_problem().task(SHORT), SHORT, 0)
    server = federation.start().server
    count = method.params.core_rows
    x = torch.randn(2, count, LENGTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    received = {"core/rows": x, "core/size": torch.full((2,), rows), "core/owner": torch.tensor([2, 0])}
    return server, method.serve(server | received, federation.task, 0, 10, 5)


@pytest.mark.parametrize(("fusion", "rows"), [(1.0, 3), (0.7, 0)])
def test_the_corrected_weights_stay_where_nothing_is_fused_or_nothing_was_sent(fusion: float, rows: int) -> None:
    before, after = served(fedal(fusion=fusion, **CORE), rows)
    assert_same(before, after)


def test_fusion_is_a_convex_combination_of_untuned_and_tuned() -> None:
    before, tuned = served(fedal(fusion=0.0, **CORE), 3)
    _, between = served(fedal(fusion=0.7, **CORE), 3)
    moved = 0.0
    for name in matching(before, MODEL):
        torch.testing.assert_close(between[name], 0.7 * before[name] + 0.3 * tuned[name])
        moved = max(moved, float((tuned[name] - before[name]).abs().max()))
    assert moved > 0
    assert torch.equal(before["domain.bias"], between["domain.bias"])


# -- correction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mean", "literal"])
def test_two_betas_give_one_trajectory(kind: str) -> None:
    one, other = (run(fedal(core_rows=0, correction=kind, beta=beta))[1] for beta in (0.1, 1.0))
    for name, value in shared(one.server).items():
        torch.testing.assert_close(value, other.server[name], rtol=0, atol=1e-7)


def test_feddyn_keeps_the_gradient_that_local_training_ended_with() -> None:
    federation, state = run(fedal(core_rows=0, correction="feddyn", beta=0.5), rounds=1)
    before = federation.start()
    start = torch.cat([before.server[name].flatten() for name in matching(before.server, MODEL)])
    local = torch.cat([state.params[name].flatten(1) for name in matching(state.params, MODEL)], 1)
    expected = -0.5 * (local - start)
    torch.testing.assert_close(state.buffers["drift"][:4], expected[:4])


def test_weights_that_overflow_at_the_server_end_the_run_as_diverged() -> None:
    method = fedal(core_rows=0, correction="literal")
    aggregate = method.aggregate

    def far(server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        changed = aggregate(server, uploads)
        return changed | {"head.bias": changed["head.bias"] * 1e200 * 1e200}

    method.aggregate = far
    _, state = run(method)
    assert state.diverged == "the server's head.bias is not finite after round 0"
    assert state.round == 1


def test_weights_that_blow_up_locally_end_the_run_as_diverged() -> None:
    federation, state = run(fedal(core_rows=0), rounds=1)
    state.server["embed.weight"] *= 1e300
    federation.rounds = 3
    federation.run(state)
    assert state.diverged is not None
    assert "not finite in round 1" in state.diverged


def test_the_printed_correction_runs_away_and_is_reported_as_diverged() -> None:
    ends = {}
    for kind in ("literal", "mean"):
        method = fedal(core_rows=0, correction=kind, lr=0.03)
        ends[kind] = run(method, rounds=10, epochs=4, train_stride=1)[1]
    assert ends["mean"].diverged is None
    assert ends["literal"].diverged.startswith("validation score in round ")
    assert ends["literal"].round < 10
