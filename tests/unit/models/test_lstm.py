"""LSTMs of many copies give the values and gradients of torch's own, one by one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedloom.models.layers import through_time
from fedloom.models.layers.lstm import LSTM, final_states, lstm

INPUTS, HIDDEN, STEPS, BATCH = 3, 5, 9, 4
SHAPES = [(1, False), (2, False), (1, True), (2, True)]


def torchs(layers: int, bidirectional: bool, seed: int = 0) -> nn.LSTM:
    torch.manual_seed(seed)
    return nn.LSTM(INPUTS, HIDDEN, layers, bidirectional=bidirectional).double()


def windows(*lead: int) -> Tensor:
    return torch.randn(*lead, STEPS, INPUTS, BATCH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def stacked(modules: list[nn.LSTM]) -> dict[str, Tensor]:
    return {n: torch.stack([m.get_parameter(n).detach() for m in modules]) for n, _ in modules[0].named_parameters()}


def loss_of(states: Tensor) -> Tensor:
    """A loss in which every state has another weight."""
    return (
        states * torch.linspace(-1, 1, states[..., 0].numel(), dtype=states.dtype).view(states.shape[:-1])[..., None]
    ).sum()


@pytest.mark.parametrize(("layers", "bidirectional"), SHAPES)
def test_values_and_gradients_are_torchs(layers: int, bidirectional: bool) -> None:
    theirs = torchs(layers, bidirectional)
    ours = LSTM(INPUTS, HIDDEN, layers, bidirectional).double()
    ours.load_state_dict(theirs.state_dict())
    x = windows().requires_grad_()
    y = x.detach().clone().requires_grad_()
    expected = theirs(x.mT)[0].mT
    torch.testing.assert_close(ours(y), expected, rtol=0, atol=1e-12)
    loss_of(expected).backward()
    loss_of(ours(y)).backward()
    torch.testing.assert_close(y.grad, x.grad, rtol=0, atol=1e-11)
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name).grad, parameter.grad, rtol=0, atol=1e-11)


def test_final_states_are_those_after_each_directions_last_step() -> None:
    theirs = torchs(1, True)
    x = windows()
    _, (final, _) = theirs(x.mT)
    ours = final_states(x, dict(theirs.named_parameters()))
    torch.testing.assert_close(ours, torch.cat([final[0], final[1]], -1).T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("budget", [1, 2**24])
def test_copies_are_independent_whatever_runs_at_once(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(through_time.CHUNK_BYTES, "cpu", budget)
    modules = [torchs(2, True, seed) for seed in range(6)]
    x = windows(2, 3)
    weights = {n: w.view(2, 3, *w.shape[1:]).requires_grad_() for n, w in stacked(modules).items()}
    states = lstm(x, weights)
    gradients = torch.autograd.grad(sum(loss_of(s) for s in states.flatten(0, 1)), list(weights.values()))
    for copy, module in enumerate(modules):
        expected = module(x.flatten(0, 1)[copy].mT)[0].mT
        torch.testing.assert_close(states.flatten(0, 1)[copy], expected, rtol=0, atol=1e-12)
        loss_of(expected).backward()
        for name, gradient in zip(weights, gradients, strict=True):
            wanted = module.get_parameter(name).grad
            torch.testing.assert_close(gradient.flatten(0, 1)[copy], wanted, rtol=0, atol=1e-11)


def test_mapped_over_clients_it_is_each_clients_own() -> None:
    modules = [torchs(2, True, seed) for seed in range(3)]
    ours, x = LSTM(INPUTS, HIDDEN, 2, True).double(), windows(3)

    def loss(weights: dict[str, Tensor], x_TFB: Tensor) -> Tensor:
        return loss_of(functional_call(ours, weights, (x_TFB,)))

    gradients, losses = vmap(grad_and_value(loss))(stacked(modules), x)
    for client, module in enumerate(modules):
        expected = loss_of(module(x[client].mT)[0].mT)
        expected.backward()
        torch.testing.assert_close(losses[client], expected.detach(), rtol=0, atol=1e-11)
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(gradients[name][client], parameter.grad, rtol=0, atol=1e-11)


def test_inputs_that_all_clients_share_are_mapped_too() -> None:
    ours, x = LSTM(INPUTS, HIDDEN).double(), windows()
    weights = stacked([torchs(1, False, seed) for seed in range(3)])
    mapped = vmap(lambda w: functional_call(ours, w, (x,)))(weights)
    torch.testing.assert_close(mapped, lstm(x.expand(3, *x.shape), weights), rtol=0, atol=0)
