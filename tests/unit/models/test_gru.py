"""Stacked GRUs give torch's values and gradients, whole, step by step, and for many copies at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedloom.models.layers.gru import StackedGRU

T, F, D, B, LAYERS = 6, 5, 7, 4, 3


def pair() -> tuple[StackedGRU, nn.GRU]:
    """Ours and torch's with the same parameters."""
    torch.manual_seed(0)
    own, theirs = StackedGRU(F, D, LAYERS).double(), nn.GRU(F, D, LAYERS).double()
    theirs.load_state_dict(own.state_dict())
    return own, theirs


def test_values_and_gradients_are_those_of_torch() -> None:
    own, theirs = pair()
    x = torch.randn(T, F, B, dtype=torch.double, requires_grad=True)
    ours, expected = own(x).transpose(1, 2), theirs(x.transpose(1, 2))[0]
    torch.testing.assert_close(ours, expected)
    weight, named = torch.randn_like(expected), dict(theirs.named_parameters())
    found = torch.autograd.grad((ours * weight).sum(), [x, *own.parameters()])
    wanted = torch.autograd.grad((expected * weight).sum(), [x, *(named[n] for n, _ in own.named_parameters())])
    torch.testing.assert_close(found, wanted)


def test_step_by_step_is_the_whole() -> None:
    own, _ = pair()
    x = torch.randn(T, F, B, dtype=torch.double)
    whole, states = own(x), (torch.zeros(B, D, dtype=torch.double),) * LAYERS
    for t in range(T):
        states = own.step(x[t].T, states)
        torch.testing.assert_close(states[-1].T, whole[t])


def test_many_copies_at_once_are_each_alone() -> None:
    own, _ = pair()
    copies = {n: torch.stack([p.detach(), 1.3 * p.detach()]) for n, p in own.named_parameters()}
    x = torch.randn(2, T, F, B, dtype=torch.double)

    def loss(weights: dict[str, Tensor], x_TFB: Tensor) -> Tensor:
        value: Tensor = functional_call(own, weights, (x_TFB,)).square().sum()
        return value

    grads, values = vmap(grad_and_value(loss))(copies, x)
    for i in range(2):
        alone, value = grad_and_value(loss)({n: w[i] for n, w in copies.items()}, x[i])
        torch.testing.assert_close(values[i], value)
        torch.testing.assert_close({n: g[i] for n, g in grads.items()}, alone)
