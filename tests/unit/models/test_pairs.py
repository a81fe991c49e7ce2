"""What is said of pairs of nodes agrees with pandas, numpy's polynomials and loops over messages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import problem
from fedloom.models.layers.pairs import (
    PairConv,
    Passing,
    SceneNorm,
    lagged_correlations,
    neighbours,
    training_correlation,
)

PAIRS = torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]])
N, B, D, E = 5, 3, 4, 4


def drawn(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).normal(size=shape))


def test_nodes_are_neighbours_where_an_edge_runs_either_way() -> None:
    edges = torch.zeros(4, 4)
    edges[2, 0] = edges[0, 1] = edges[1, 0] = edges[3, 3] = 0.5
    assert neighbours(edges).T.tolist() == [[0, 1], [0, 2]]


def test_correlations_are_pandas_over_training_steps_where_both_were_observed() -> None:
    given = problem(equal=True)
    task = given.task()
    order = task.keys.argsort().numpy()
    seen = pd.DataFrame(given.values[order, :100].T)
    assert seen.isna().any().all()
    torch.testing.assert_close(training_correlation(task), torch.tensor(seen.corr().to_numpy()))


def test_a_node_that_does_not_vary_correlates_with_nobody() -> None:
    task = problem(equal=True).task()
    task.targets[2] = 0.5 * task.observed[2]
    found = training_correlation(task)[task.keys.argsort().argsort()[2]]
    torch.testing.assert_close(found, torch.zeros(5).double())


def test_lagged_correlations_are_those_of_windows_turned_back() -> None:
    x_NBT = drawn(N, B, 12)
    found = lagged_correlations(x_NBT, PAIRS, range(0, 12, 6))
    for e, (i, j) in enumerate(PAIRS.T.tolist()):
        for b in range(B):
            for k, lag in enumerate((0, 6)):
                turned = np.roll(x_NBT[j, b].numpy(), -lag)
                expected = np.corrcoef(x_NBT[i, b].numpy(), turned)[0, 1]
                assert float(found[e, b, k]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_pairs_are_convolved_by_laguerre_polynomials_of_their_laplacian(order: int) -> None:
    conv, x_EBD = PairConv(PAIRS, N, D, order).double(), drawn(E, B, D)
    nn.init.normal_(conv.bias)
    incidence = np.zeros((N, E))
    for e, (i, j) in enumerate(PAIRS.T.tolist()):
        incidence[i, e], incidence[j, e] = -1, 1
    flow = 2 * incidence.T @ incidence / np.linalg.eigvalsh(incidence @ incidence.T).max()
    expected = conv.bias
    for k in range(order):
        series = np.polynomial.laguerre.lag2poly(np.eye(order)[k])
        dense = torch.from_numpy(sum(c * np.linalg.matrix_power(flow, p) for p, c in enumerate(series)))
        expected = expected + torch.einsum("ef,fbd,od->ebo", dense, x_EBD, conv.weight[k])
    torch.testing.assert_close(conv(x_EBD), expected)


def test_messages_pass_both_ways_by_a_score_each() -> None:
    passing, h_NBD = Passing(N, D).double(), drawn(N, B, D)
    for part in (passing.bias, passing.norm.weight, passing.norm.bias):
        nn.init.normal_(part)
    scores = drawn(2, 2, E, B)
    rounds = [(forth, back) for forth, back in scores]
    known = now = torch.einsum("nbd,od->nbo", h_NBD, passing.map.weight)
    for forth, back in rounds:
        heard = torch.zeros_like(now)
        for e, (i, j) in enumerate(PAIRS.T.tolist()):
            heard[j] += forth[e][:, None] * now[i]
            heard[i] += back[e][:, None] * now[j]
        now = heard.relu()
    norm = nn.LayerNorm([N, D]).double()
    norm.load_state_dict({"weight": passing.norm.weight, "bias": passing.norm.bias})
    expected = norm((known + now + passing.bias).transpose(0, 1)).transpose(0, 1)
    torch.testing.assert_close(passing(h_NBD, PAIRS, rounds), expected)
    alone = norm((known + passing.bias).transpose(0, 1)).transpose(0, 1)
    torch.testing.assert_close(passing(h_NBD, PAIRS, []), alone)


def test_a_moment_is_normalised_over_nodes_and_features_together() -> None:
    out = SceneNorm(N, D).double()(drawn(N, B, D))
    torch.testing.assert_close(out.mean((0, 2)), torch.zeros(B).double())
    torch.testing.assert_close(out.var((0, 2), correction=0), torch.ones(B).double(), atol=1e-4, rtol=0)
