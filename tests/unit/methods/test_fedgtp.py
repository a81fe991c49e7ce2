"""FedGTP is a dense graph recurrent net whose graph is a polynomial of vectors' products, and only sums cross."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedloom.check.problems import CLIENTS, HISTORY, PROTOCOL, problem
from fedloom.federation.exchange import Exchange, Ledger
from fedloom.federation.method import Method
from fedloom.federation.rounds import Federation, State, predictor
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.fedgtp import FedGtp
from fedloom.models.layers.tensor_graph import forecast, kronecker_powers


def small(layers: int = 2) -> FedGtp:
    return FedGtp(FedGtp.Params(hidden=5, layers=layers, order=3))


def train(method: FedGtp, task: ForecastTask) -> tuple[Federation, State]:
    federation = Federation(method, task, PROTOCOL, seed=0)
    return federation, federation.run(federation.start())


def test_it_has_the_published_size(metr_la_sized: ForecastTask) -> None:
    method = FedGtp()
    module = method.client(metr_la_sized)
    assert set(method.parameters(metr_la_sized, module).tolist()) == {75_665}
    assert sum(dict(module.named_parameters())[n].numel() for n in method.travelling(module.state_dict())) == 75_663


def test_powers_of_vectors_multiply_to_powers_of_their_product() -> None:
    e = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for p, power in enumerate(kronecker_powers(e, 4)):
        assert power.shape == (4, 2**p)
        torch.testing.assert_close(power @ power.T, (e @ e.T) ** p)


def dense_forecast(tensors: dict[str, Tensor], x_CBT: Tensor, layers: int) -> Tensor:
    """The same net with its graph written out, node by node: sum_p a_p (e_i . e_j)^p, and each node itself."""
    e, a = tensors["vector"], tensors["coefficients"]

    def call(pool: str, node: int, h: list[Tensor]) -> Tensor:
        z = h[node] + sum(
            a[node, p] * (e[node] @ e[j]) ** p * h[j].detach() for j in range(len(h)) for p in range(a.shape[1])
        )
        weight = sum(e[node, d] * tensors[f"{pool}.weight"][node, d] for d in range(e.shape[1]))
        bias = sum(e[node, d] * tensors[f"{pool}.bias"][node, d] for d in range(e.shape[1]))
        return z @ weight + bias

    clients, hidden = len(e), tensors["output.weight"].shape[-1]
    fed = [list(x_CBT[c].T[..., None]) for c in range(clients)]
    for layer in range(layers):
        cell, h = f"cells.{layer}", [x_CBT.new_zeros(x_CBT.shape[1], hidden) for _ in range(clients)]
        for t in range(x_CBT.shape[-1]):
            now = [torch.cat([fed[c][t], h[c]], -1) for c in range(clients)]
            z, r = zip(*(call(f"{cell}.gate", c, now).sigmoid().chunk(2, -1) for c in range(clients)), strict=True)
            now = [torch.cat([fed[c][t], z[c] * h[c]], -1) for c in range(clients)]
            new = [call(f"{cell}.update", c, now).tanh() for c in range(clients)]
            h = [r[c] * h[c] + (1 - r[c]) * new[c] for c in range(clients)]
            for c in range(clients):
                fed[c][t] = h[c]
    return torch.stack([h[c] @ tensors["output.weight"][c].T + tensors["output.bias"][c] for c in range(clients)])


@pytest.mark.parametrize("layers", [1, 2])
def test_it_is_the_dense_recurrence_of_its_graph(layers: int) -> None:
    task, method = problem(equal=True).task(), small(layers=layers)
    own = Federation(method, task, PROTOCOL, seed=0).start().params
    x_CBT = task.batch("train", torch.arange(CLIENTS), torch.tensor([[3, 17, 30]] * CLIENTS)).x
    expected = dense_forecast(own, x_CBT, layers)
    torch.testing.assert_close(forecast(own, x_CBT, Exchange(method.edges(task))), expected)


def test_no_gradient_returns_through_the_sums() -> None:
    task, method = problem(equal=True).task(), small(layers=1)
    own = {n: p.requires_grad_() for n, p in Federation(method, task, PROTOCOL, seed=0).start().params.items()}
    x_CBT = task.batch("train", torch.arange(CLIENTS), torch.tensor([[3, 17, 30]] * CLIENTS)).x
    forecast(own, x_CBT, Exchange(method.edges(task)))[2].square().sum().backward()
    for name, p in own.items():
        assert p.grad is not None
        reached = p.grad.flatten(1).any(1)
        assert reached.tolist() == [c == 2 for c in range(CLIENTS)], name


def test_a_sum_of_products_is_the_total_of_what_each_client_makes_and_costs_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    own, z = torch.randn(4, 3, generator=generator), torch.randn(4, 5, 2, generator=generator)
    edges, one, other = torch.zeros(2, 0, dtype=torch.int64), Ledger(4), Ledger(4)
    for gradient in (True, False):
        products = Exchange(edges, one, training=True).products(own, z, gradient)
        total = Exchange(edges, other, training=True).total(own[:, :, None, None] * z[:, None], gradient)
        torch.testing.assert_close(products, total[0])
    assert one.up.tolist() == other.up.tolist() == one.down.tolist() == [4.0 * 3 * 3 * 10] * 4


def test_sums_of_every_call_are_charged_both_ways_and_pools_once_a_round() -> None:
    method = small()
    federation, state = train(method, problem(equal=True).task())
    windows = -(-int(federation.task.sizes("train")[0]) // PROTOCOL.train_stride)
    sums = HISTORY * 2 * ((1 + 5) + (5 + 5)) * (2 ** (3 + 1) - 1)  # steps, calls, channels of two layers, d^0 to d^P
    pools = federation.parameters - 2
    for direction in ("bytes_up", "bytes_down"):
        assert {v for _, _, q, v in state.log if q == direction} == {4.0 * (pools + sums * windows)}
    published = 12 * 2 * (65 + 128) * (2 ** (2 + 1) - 1)
    assert published == 32_424


def test_vectors_stay_at_home_and_their_moments_last_a_round() -> None:
    method, task = small(), problem(equal=True).task()
    _, state = train(method, task)
    assert "vector" not in state.server
    assert len(state.params["vector"].unique(dim=0)) == CLIENTS
    windows = -(-int(task.sizes("train")[0]) // PROTOCOL.train_stride)
    for name in ("vector", "coefficients"):
        assert state.moments["step"][f"{name}/count"].tolist() == [-(-windows // PROTOCOL.batch)] * CLIENTS


def test_a_reading_of_one_client_reaches_the_forecasts_of_all() -> None:
    given, method = problem(equal=True), small()
    federation, state = train(method, given.task())
    rows = torch.arange(CLIENTS)
    tasks = given.task(), given.disturbed(1).task()
    batches = [task.batch("train", rows, torch.tensor([[3, 17, 30]] * CLIENTS)) for task in tasks]
    predict = predictor(method, federation.skeleton, federation.task, federation.weights(state))
    one, other = (predict(batch, rows) for batch in batches)
    assert (one != other).flatten(1).any(1).all()


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    assert together_by_heart(FedGtp(FedGtp.Params(lr=5e-3, hidden=32)), 100, 4) < 0.02
