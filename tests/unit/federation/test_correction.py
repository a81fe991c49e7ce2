"""The server's corrections on quadratic clients, whose rounds can be done exactly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedloom.federation.correction import Correction, GradientCorrection
from fedloom.federation.method import Clients, Phase, Uploads

CLIENTS = 10
CURVATURE = torch.linspace(0.5, 3.0, CLIENTS, dtype=torch.float64)[:, None] * torch.tensor([[1.0, 2.0]]).double()
CENTRE = torch.randn(CLIENTS, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OPTIMUM = (CURVATURE * CENTRE).sum(0) / CURVATURE.sum(0)


def rounds(kind: Correction, beta: float, count: int, shrink: Tensor | None = None, clients: int = CLIENTS) -> Tensor:
    """Server weights [count + 1, 2]: clients minimise a/2 |w - c|^2, or with ``shrink`` go a share of the way to c."""
    how = GradientCorrection(kind, beta, ("w",))
    everyone, sizes, zeros = torch.arange(clients), torch.ones(clients), torch.zeros(clients, 2, dtype=torch.float64)
    server = {"w": zeros[0], "drift/w": zeros[0], "clients": torch.tensor([clients])}
    buffers = {"received": zeros, "drift": zeros}
    path = [server["w"]]
    a, c = CURVATURE[:clients], CENTRE[:clients]
    for _ in range(count):
        start = server["w"].expand(clients, 2)
        buffers |= how.begin(Phase("train"), Clients(everyone, sizes, {"w": start}, buffers, {}))
        step = 1 - torch.exp(-0.3 * a) if shrink is None else shrink
        local = start + step * (c - start)
        if kind == "feddyn":
            local = (a * c + buffers["drift"] + beta * start) / (a + beta)
        buffers |= how.begin(Phase("settle"), Clients(everyone, sizes, {"w": local}, buffers, {}))
        server |= how.corrected(server, Uploads(everyone, sizes, {"w": local}))
        path.append(server["w"])
    return torch.stack(path)


@pytest.mark.parametrize("kind", ["literal", "mean"])
def test_beta_cancels(kind: Correction) -> None:
    one, other = rounds(kind, 0.1, 8), rounds(kind, 2.5, 8)
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["damped", "feddyn"])
def test_beta_acts_where_it_is_studied(kind: Correction) -> None:
    assert (rounds(kind, 0.1, 5)[-1] - rounds(kind, 0.5, 5)[-1]).abs().max() > 1e-3


@pytest.mark.parametrize("clients", [3, 10])
def test_the_printed_form_diverges_beyond_its_bound_and_only_there(clients: int) -> None:
    bound = 4 / (clients + 2)
    for share, grows in ((0.97 * bound, False), (1.03 * bound, True)):
        path = rounds("literal", 0.1, 800, torch.tensor(share), clients)
        mean = CENTRE[:clients].mean(0)
        errors = (path - mean).norm(dim=-1)
        assert bool(errors[-50:].max() > 100 * errors[0]) is grows


def test_the_form_divided_by_the_clients_has_the_fixed_point_of_plain_averaging() -> None:
    plain, corrected_ = rounds("none", 0.1, 3000)[-1], rounds("mean", 0.1, 3000)[-1]
    torch.testing.assert_close(corrected_, plain, rtol=0, atol=1e-6)
    assert (plain - OPTIMUM).abs().max() > 1e-2


def test_damping_keeps_that_fixed_point_too() -> None:
    torch.testing.assert_close(rounds("damped", 0.1, 3000)[-1], rounds("none", 0.1, 3000)[-1], rtol=0, atol=1e-6)


def test_feddyn_reaches_the_optimum() -> None:
    torch.testing.assert_close(rounds("feddyn", 1.0, 3000)[-1], OPTIMUM, rtol=0, atol=1e-6)
