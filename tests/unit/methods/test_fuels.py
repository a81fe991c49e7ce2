"""FUELS has its published sizes, sends one code, and its contrasts and its server are what plain loops say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedloom.check.problems import PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation, State
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.fuels import Fuels, alike_and_others, divergence
from fedloom.models.layers.contrastive import gated_info_nce, nearer_than


def trained(**params: object) -> tuple[Federation, State]:
    federation = Federation(Fuels(Fuels.Params(**({"width": 6, "side": 16} | params))), problem().task(), PROTOCOL, 0)
    return federation, federation.run(federation.start())


def codes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_has_the_published_sizes(metr_la_sized: ForecastTask) -> None:
    method = Fuels()
    module = method.client(metr_la_sized)
    assert set(method.parameters(metr_la_sized, module).tolist()) == {9_196}
    assert sum(p.numel() for p in module.parameters()) == 9_196 + 65_536


def test_a_code_is_the_last_states_of_torch_s_own_gru_on_all_and_on_every_other_step() -> None:
    module = Fuels(Fuels.Params(width=10)).client(problem().task()).double()
    x_BT = codes(5, 12)
    states = []
    for ours, steps in ((module.recent, x_BT), (module.periodic, x_BT[:, [1, 3, 5, 7, 9, 11]])):
        theirs = nn.GRU(1, 5, batch_first=True).double()
        theirs.load_state_dict(ours.state_dict())
        states.append(theirs(steps[..., None])[1][0])
    torch.testing.assert_close(module.code(x_BT), torch.cat(states, -1))


@pytest.mark.parametrize("temperature", [0.02, 1.0])
def test_the_contrast_within_a_minibatch_is_a_sum_over_gated_pairs(temperature: float) -> None:
    r, other, gate = codes(7, 4), codes(7, 4, seed=1), codes(9, 9, seed=2)[:7, :7]
    valid = torch.tensor([1.0] * 5 + [0.0] * 2, dtype=torch.float64)
    total = 0.0
    for i in range(5):
        e = [math.exp(float(cosine_similarity(r[i], other[j], 0)) / temperature) for j in range(5)]
        passed = sum(e[j] / (1 + math.exp(-float(gate[i, j]))) for j in range(5) if j != i)
        total -= math.log(e[i] / (e[i] + passed))
    assert float(gated_info_nce(r, other, temperature, gate, valid)) == pytest.approx(total / 5)


def test_without_a_gate_it_is_the_cross_entropy_of_finding_ones_own_view() -> None:
    r, other = codes(6, 4), codes(6, 4, seed=1)
    cosine = cosine_similarity(r[:, None], other[None], -1)
    expected = cross_entropy(cosine / 0.1, torch.arange(6))
    torch.testing.assert_close(gated_info_nce(r, other, 0.1, None, torch.ones(6, dtype=torch.float64)), expected)


def test_the_contrast_between_two_is_a_cross_entropy_over_the_pair() -> None:
    r, positive, negative = codes(6, 4), codes(4, seed=1), codes(4, seed=2)
    cosine = torch.stack([cosine_similarity(r, other[None], -1) for other in (positive, negative)], -1)
    expected = cross_entropy(cosine / 0.02, torch.zeros(6, dtype=torch.int64), reduction="none")
    torch.testing.assert_close(nearer_than(r, positive, negative, 0.02), expected)
    unknown = nearer_than(r, torch.zeros(4), torch.zeros(4), 0.02)
    torch.testing.assert_close(unknown, torch.full((6,), math.log(2), dtype=torch.float64))


def test_the_server_averages_those_alike_and_the_others() -> None:
    prototypes = 3 * codes(6, 5)
    p = prototypes.softmax(-1).numpy()
    apart = torch.tensor([[jensenshannon(a, b) ** 2 for b in p] for a in p])
    torch.testing.assert_close(divergence(prototypes), apart)
    pairs = sorted(float(apart[i, j]) for i in range(6) for j in range(i))
    limit = pairs[(len(pairs) - 1) // 2]
    alike, others = alike_and_others(prototypes)
    for i in range(6):
        near = [j for j in range(6) if apart[i, j] <= limit + 1e-12]
        far = [j for j in range(6) if j not in near]
        assert i in near
        torch.testing.assert_close(alike[i], prototypes[near].mean(0))
        torch.testing.assert_close(others[i], prototypes[far].mean(0) if far else torch.zeros_like(others[i]))


def test_one_client_is_alike_itself_and_has_no_others() -> None:
    prototype = codes(1, 5)
    alike, others = alike_and_others(prototype)
    assert torch.equal(alike, prototype)
    assert not others.any()


def test_a_client_sends_its_code_and_gets_two_from_the_second_round_on() -> None:
    _, state = trained(width=64)
    moved = {(r, q): v for r, client, q, v in state.log if client == "a" and q.startswith("bytes")}
    assert [moved[r, "bytes_up"] for r in range(3)] == [4.0 * 64] * 3
    assert [moved[r, "bytes_down"] for r in range(3)] == [0.0, 8.0 * 64, 8.0 * 64]
    assert {r for r, _, quantity, _ in state.log if quantity == "between"} == {1, 2}


def test_what_is_sent_is_the_mean_code_of_the_trained_weights() -> None:
    federation = Federation(
        Fuels(Fuels.Params(width=6, side=16)), problem().task(), replace(PROTOCOL, train_stride=1, rounds=1), 0
    )
    sent = {}
    aggregate = federation.method.aggregate
    federation.method.aggregate = lambda server, uploads: sent.update(whole=uploads) or aggregate(server, uploads)
    state = federation.run(federation.start())
    client, row = 2, sent["whole"].positions.tolist().index(2)
    task, size = federation.task, int(federation.task.sizes("train")[2])
    batch = task.batch("train", torch.tensor([client]), torch.arange(size)[None])
    federation.skeleton.load_state_dict({n: p[client] for n, p in (state.params | state.buffers).items()})
    torch.testing.assert_close(sent["whole"]["prototype"][row], federation.skeleton.code(batch.x[0]).mean(0))


def test_another_view_is_jittered_has_holes_and_may_be_a_step_late() -> None:
    method, x = Fuels(Fuels.Params(jitter=0.5)), codes(2, 4)
    noise = {"jitter": torch.ones(2, 4), "zeroed": torch.tensor([[0.05, 0.5, 0.5, 0.5]] * 2)}
    changed = method.augmented(x, noise | {"shift": torch.tensor([0.7, 0.2])})
    expected = x + 0.5
    expected[:, 0] = 0
    torch.testing.assert_close(changed[0], expected[0])
    torch.testing.assert_close(changed[1], expected[1, [0, 0, 1, 2]])


def test_a_minibatch_larger_than_its_filter_is_refused() -> None:
    with pytest.raises(InputError, match="side = 8 windows, found 16"):
        trained(side=8)


def test_the_filter_can_be_left_out() -> None:
    _, state = trained(gate="none")
    assert "gate" not in state.params


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    assert together_by_heart(Fuels(Fuels.Params(lr=1e-2)), 6, 20) < 0.01
