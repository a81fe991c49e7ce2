"""Some clients of a federation: smaller shares lie within larger ones, and each client is what it was among all."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.check.problems import PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.randomness import client_keys
from fedloom.federation.rounds import Federation
from fedloom.federation.subset import Subset
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.methods.atlas import Atlas

SHARES = (0.05, 0.25, 0.5, 0.75, 0.9)


@given(clients=st.integers(20, 400), seed=st.integers(0, 5))
def test_shares_are_nested_and_each_leaves_the_rest(clients: int, seed: int) -> None:
    keys = client_keys([f"client {i}" for i in range(clients)])
    inside: set[int] = set()
    for share in SHARES:
        first = Subset(share).chosen(keys, seed).tolist()
        rest = Subset(share, "rest").chosen(keys, seed).tolist()
        assert inside <= set(first)
        assert sorted(first + rest) == list(range(clients))
        assert first == sorted(first)
        inside = set(first)


@pytest.mark.parametrize(("clients", "share", "expected"), [(207, 0.05, 10), (325, 0.05, 16), (100, 0.29, 29)])
def test_shares_are_rounded_down(clients: int, share: float, expected: int) -> None:
    assert len(Subset(share).chosen(client_keys([str(i) for i in range(clients)]), 0)) == expected


def test_who_is_drawn_depends_on_the_seed_and_on_names_alone() -> None:
    names = [f"client {i}" for i in range(50)]
    drawn = {names[i] for i in Subset(0.3).chosen(client_keys(names), 1).tolist()}
    back = names[::-1]
    assert drawn == {back[i] for i in Subset(0.3).chosen(client_keys(back), 1).tolist()}
    assert drawn != {names[i] for i in Subset(0.3).chosen(client_keys(names), 2).tolist()}


def test_a_share_of_nobody_is_one_line() -> None:
    with pytest.raises(InputError, match=r"clients\.share: expected some of 10 clients, found 0 \(0\.05\)"):
        Subset(0.05).chosen(client_keys([str(i) for i in range(10)]), 0)
    with pytest.raises(ValueError, match=r"clients\.share: expected a share in \(0, 1\), found 1"):
        Subset(1.0)


def test_clients_that_never_meet_learn_the_same_among_few_as_among_all() -> None:
    task = problem().task()
    assert isinstance(task, ForecastTask)
    rows = torch.tensor([1, 3])
    params = Atlas.Params(encoder="compact", width=8, codebook="frozen")
    states = []
    for each in (task, task.only(rows)):
        federation = Federation(Atlas(params), each, PROTOCOL, seed=0)
        states.append(federation.run(federation.start()))
    for name, tensor in states[0].params.items():
        torch.testing.assert_close(tensor[rows], states[1].params[name], rtol=1e-12, atol=1e-12)


def test_edges_are_those_among_the_chosen() -> None:
    task = problem().task()
    assert isinstance(task, ForecastTask)
    some = task.only(torch.tensor([0, 2, 4]))
    expected = [(task.ids[a], task.ids[b]) for a, b in task.edges.T.tolist() if a in (0, 2, 4) and b in (0, 2, 4)]
    assert [(some.ids[a], some.ids[b]) for a, b in some.edges.T.tolist()] == expected
    assert len(some.weights) == len(expected)
