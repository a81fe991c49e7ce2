"""Supports and convolutions over them are the dense matrix algebra of their papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from fedloom.models.layers.graph import (
    DiffusionConv,
    adaptive,
    adjacency,
    both_directions,
    chebyshev,
    powers,
    random_walk,
)

N, B, F, D = 6, 3, 4, 5


def drawn(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(3).normal(size=shape))


def directed() -> Tensor:
    weights = drawn(N, N).abs() * (drawn(N, N) > 0.2)
    weights[2] = 0.0  # nobody hears node 2
    return weights


def test_an_edge_list_is_laid_out_by_source_and_receiver() -> None:
    dense = adjacency(torch.tensor([[0, 2], [1, 0]]), torch.tensor([0.5, 0.25]), 3)
    assert dense.tolist() == [[0, 0.5, 0], [0, 0, 0], [0.25, 0, 0]]


def test_walks_run_both_ways_and_a_node_without_edges_stays_out() -> None:
    dense = directed()
    assert not torch.equal(dense, dense.mT)
    along, against = both_directions(dense)
    has_out, has_in = dense.sum(1) > 0, dense.sum(0) > 0
    torch.testing.assert_close(along.sum(1), has_out.double())
    torch.testing.assert_close(against.sum(1), has_in.double())
    torch.testing.assert_close(along[has_out] * dense.sum(1, keepdim=True)[has_out], dense[has_out])
    torch.testing.assert_close(against[has_in] * dense.sum(0)[has_in, None], dense.T[has_in])
    assert not random_walk(dense)[2].any()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_powers_and_polynomials_are_those_of_numpy(order: int) -> None:
    walks = both_directions(directed())
    expected = [np.linalg.matrix_power(p.numpy(), k) for p in walks for k in range(1, order + 1)]
    torch.testing.assert_close(powers(walks, order), torch.from_numpy(np.stack(expected)))
    one = [np.eye(order + 1)[k] for k in range(1, order + 1)]
    series = [np.polynomial.chebyshev.cheb2poly(c) for c in one]
    values = [sum(a * np.linalg.matrix_power(p.numpy(), k) for k, a in enumerate(c)) for p in walks for c in series]
    torch.testing.assert_close(chebyshev(walks, order), torch.from_numpy(np.stack(values)))


@pytest.mark.parametrize("bias", [True, False])
def test_a_diffusion_convolution_is_a_sum_over_dense_supports(bias: bool) -> None:
    supports, x = powers(both_directions(directed()), 2), drawn(N, B, F)
    conv = DiffusionConv(F, D, len(supports), bias).double()
    expected = np.einsum("nbf,fd->nbd", x, conv.weight[0].detach())
    for support, weight in zip(supports, conv.weight[1:], strict=True):
        expected += np.einsum("nm,mbf,fd->nbd", support, x, weight.detach())
    if conv.bias is not None:
        expected += conv.bias.detach().numpy()
    torch.testing.assert_close(conv(x, supports).detach(), torch.from_numpy(expected))


def test_without_supports_every_node_is_on_its_own() -> None:
    conv = DiffusionConv(F, D, 0).double()
    x = drawn(N, B, F)
    torch.testing.assert_close(conv(x, x.new_empty((0, N, N))), x @ conv.weight[0] + conv.bias)


def test_a_learnt_support_is_a_distribution_over_nodes_in_every_row() -> None:
    source, target = drawn(N, 2), drawn(N, 2) + 1
    found = adaptive(source, target)
    raw = np.exp(np.maximum(source.numpy() @ target.numpy().T, 0))
    torch.testing.assert_close(found, torch.from_numpy(raw / raw.sum(1, keepdims=True)))
