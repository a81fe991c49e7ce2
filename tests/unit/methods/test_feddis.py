"""FedDis has its published sizes and messages; its cell, bank, bound and server are what plain loops say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal
from torch.nn.functional import cosine_similarity

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Clients, Method, Uploads
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import tensors_of
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.methods.feddis import FedDis, mixed_rows
from fedloom.models.layers.bank import Bank, whitened
from fedloom.models.layers.club import Club
from fedloom.models.layers.node_gru import NodeGRU

SMALL = FedDis.Params(width=6, bank=7, memory=4)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_has_the_published_sizes(metr_la_sized: ForecastTask) -> None:
    method = FedDis()
    module = method.client(metr_la_sized)
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in module.named_children()}
    assert sizes["encoder"] == sizes["own_encoder"] == 74_880
    assert sizes["club"] == 66_176
    rest = sum(p.numel() for p in module.parameters()) - sizes["club"]
    # Published: another 1,228 for a head that is neither used nor sent, and for the read-out of a graph of one sensor.
    assert rest == 167_029 - 1_228
    assert set(method.parameters(metr_la_sized, module).tolist()) == {rest - 780 + 96 * 64}


@pytest.mark.parametrize(("memory", "numbers"), [(16, 76_748), (32, 77_772)])
def test_a_client_sends_pools_head_memory_and_graph(metr_la_sized: ForecastTask, memory: int, numbers: int) -> None:
    method = FedDis(FedDis.Params(memory=memory))
    params, buffers = tensors_of(method.client(metr_la_sized))
    two = [{n: t.expand(2, *t.shape) for n, t in tensors.items()} for tensors in (params, buffers)]
    clients = Clients(torch.arange(2), torch.ones(2), *two, {})
    assert method.charged(method.upload(clients), clients).tolist() == [numbers] * 2
    server = method.server(metr_la_sized, params | buffers)
    received = method.download(server, clients)
    assert method.charged(received, clients).tolist() == [numbers - 64] * 2  # nobody has a use for its own graph


def test_what_crosses_is_counted_every_round() -> None:
    federation = Federation(FedDis(SMALL), problem().task(), PROTOCOL, seed=0)
    state = federation.run(federation.start())
    module = federation.skeleton
    shared = sum(p.numel() for part in (module.encoder, module.end) for p in part.parameters()) + 4 * 6
    up, down = ({v for _, c, q, v in state.log if q == f"bytes_{way}" and c != "e"} for way in ("up", "down"))
    assert (up, down) == ({4.0 * (shared + 6)}, {4.0 * shared})


def test_the_cell_is_agcrn_s_on_a_graph_of_one_sensor() -> None:
    module, x_BT, node = NodeGRU(2, 5, 2).double(), draw(3, 4), draw(2, seed=1)
    graph = torch.eye(1, dtype=torch.float64) + torch.relu(node[None] @ node[None].T)
    series = [x[:, None] for x in x_BT.T]
    for layer in module.layers:
        state, states = torch.zeros(3, 5, dtype=torch.float64), []
        for x in series:

            def call(pools: torch.nn.Module, given: Tensor) -> Tensor:
                mixed = torch.einsum("nm,bmf->bnf", graph, given[:, None])
                weight = torch.einsum("nd,dfo->nfo", node[None], pools.weights)
                return (torch.einsum("bnf,nfo->bno", mixed, weight) + node[None] @ pools.bias)[:, 0]

            z, r = call(layer.gate, torch.cat([x, state], -1)).sigmoid().split(5, -1)
            new = call(layer.update, torch.cat([x, z * state], -1)).tanh()
            state = r * state + (1 - r) * new
            states.append(state)
        series = states
    torch.testing.assert_close(module(x_BT, node), series[-1])


def one_by_one(bank: Bank, z_BD: Tensor, moving: bool) -> tuple[Tensor, Tensor]:
    """Windows write and read in turn, as in the published code (or none moves the bank); what they read, the rows."""
    rows, read = bank.rows.clone(), []
    for z in z_BD:
        written = bank.keep * rows + (1 - bank.keep) * (bank.write.weight * z + bank.write.bias[:, None])
        if moving:
            rows = written.detach()
        score = bank.score((bank.of_code(z)[None] + bank.of_row(written)).relu())[:, 0]
        read.append((score / 4).softmax(0) @ written)
    return torch.stack(read), rows


@pytest.mark.parametrize("moving", [True, False])
@pytest.mark.parametrize("keep", [0.5, 0.9])
def test_a_bank_written_at_once_is_a_bank_written_in_turn(moving: bool, keep: float) -> None:
    bank, z_BD = Bank(5, 4, keep).double(), draw(6, 4).requires_grad_()
    bank.rows.copy_(draw(5, 4, seed=1))
    read = bank.read(z_BD, bank.written(z_BD) if moving else bank.frozen(z_BD))
    expected, _ = one_by_one(bank, z_BD, moving)
    torch.testing.assert_close(read, expected)
    over = [z_BD, *bank.parameters()]
    grads = (torch.autograd.grad((value * draw(6, 4, seed=2)).sum(), over) for value in (read, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_padding_leaves_the_bank_as_it_is() -> None:
    bank, z_BD = Bank(5, 4, 0.5).double(), draw(6, 4)
    valid = torch.tensor([1.0] * 4 + [0.0] * 2, dtype=torch.float64)
    torch.testing.assert_close(bank.after(z_BD, valid), one_by_one(bank, z_BD[:4], True)[1])


def test_a_bank_starts_white() -> None:
    rows = whitened(torch.randn(96, 64, dtype=torch.float64))
    torch.testing.assert_close(rows.T @ rows / 96, torch.eye(64, dtype=torch.float64), atol=0.05, rtol=0)
    assert whitened(torch.randn(5, 8)).shape == (5, 8)


def test_the_bound_and_the_misfit_are_log_densities_of_a_gaussian() -> None:
    club, x, y = Club(4, 8).double(), draw(7, 4), draw(7, 4, seed=1)
    valid = torch.tensor([1.0] * 5 + [0.0] * 2, dtype=torch.float64)
    guess = Normal(club.mean(x), (club.log_variance(x) / 2).exp())
    own = guess.log_prob(y).sum(-1)[:5]
    every = torch.stack([guess.log_prob(y[j]).sum(-1)[:5] for j in range(5)])
    torch.testing.assert_close(club.bound(x, y, valid), own.mean() - every.mean())
    constant = 4 * torch.log(torch.tensor(2 * torch.pi, dtype=torch.float64))
    torch.testing.assert_close(club.misfit(x, y, valid), -2 * own.mean() - constant)


def test_memories_are_mixed_row_by_row() -> None:
    memory = draw(4, 5, 3)
    mixed = mixed_rows(memory, 0.3, 2, 0.4)
    for i in range(4):
        for n in range(5):
            rows, likeness = [], []
            for j in set(range(4)) - {i}:
                cosine = cosine_similarity(memory[i, n][None], memory[j], -1)
                for m in cosine.argsort(descending=True)[:2].tolist():
                    if cosine[m] >= 0.3:
                        rows.append(memory[j, m])
                        likeness.append(cosine[m])
            expected = memory[i, n]
            if rows:
                expected = 0.4 * expected + 0.6 * torch.stack(likeness).softmax(0) @ torch.stack(rows)
            torch.testing.assert_close(mixed[i, n], expected)


def test_a_memory_that_nothing_resembles_stays() -> None:
    memory = torch.eye(6, dtype=torch.float64).view(2, 3, 6)
    assert torch.equal(mixed_rows(memory, 0.3, 3, 0.4), memory)


def test_encoders_are_mixed_by_the_likeness_of_graphs_and_others_stay() -> None:
    method, start = FedDis(SMALL), {"end.bias": torch.zeros(3)}
    server = {"end.bias": torch.full((4, 3), 9.0), "memory": torch.ones(4, 2, 6)}
    sent = {"end.bias": torch.tensor([[1.0] * 3, [2.0] * 3]), "memory": torch.ones(2, 2, 6)}
    graph = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    found = method.aggregate(server, Uploads(torch.tensor([2, 0]), torch.ones(2), sent | {"graph": graph}))
    share = torch.tensor([1.0, 0.5**0.5]).softmax(0)
    assert start.keys() <= found.keys()
    expected = torch.tensor([share[1] * 1 + share[0] * 2, 9.0, share[0] * 1 + share[1] * 2, 9.0])
    torch.testing.assert_close(found["end.bias"], expected[:, None].expand(4, 3))


def first_windows(task: ForecastTask, count: int) -> Windows:
    batch = task.batch("train", torch.tensor([0]), torch.arange(count)[None])
    return Windows(*(part[0] for part in batch))


def test_a_forecast_sees_no_other_window() -> None:
    task = problem().task()
    module, batch = FedDis(SMALL).client(task).double(), first_windows(task, 9)
    alone = [module(Windows(*(part[i : i + 1] for part in batch))) for i in range(9)]
    torch.testing.assert_close(module(batch), torch.cat(alone))


def test_swapped_codes_are_the_published_slip() -> None:
    task = problem().task()
    module, batch = FedDis(SMALL).client(task).double(), first_windows(task, 9)
    shared, own = module.codes(batch)
    torch.testing.assert_close(shared, module.encoder(batch.x, module.node))
    module.swapped = True
    assert all(torch.equal(a, b) for a, b in zip(module.codes(batch), (own, shared), strict=True))


def test_the_head_that_only_travels_is_never_trained() -> None:
    federation = Federation(FedDis(SMALL), problem().task(), replace(PROTOCOL, rounds=1), seed=0)
    state = federation.start()
    drawn = state.server["end.weight"].clone()
    torch.testing.assert_close(federation.run(state).server["end.weight"], drawn)
    assert not any(n.startswith(("end", "club")) for n in federation.weights(state))


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    assert together_by_heart(FedDis(FedDis.Params(lr=1e-2, width=16, bank=8)), 6, 20) < 0.01
