"""Matrix products may be reduced in training: gradients stay close, and all that is kept stays in full precision."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from fedloom.check.problems import PROTOCOL, problem, trajectory_problem
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation, State
from fedloom.methods.registry import get, make, names

COUPLED = {"method": "st_split_vfl", "params": {"k": 2, "pretrain_epochs": 0}, "model": None}
PLAIN = {"method": "fedavg", "params": {}, "model": {"name": "forecaster", "params": {"encoder": "compact"}}}


def trained(spec: dict, protocol: Protocol) -> tuple[State, State]:
    """The state before a round and after it."""
    small = problem(equal=spec is COUPLED)
    federation = Federation(make(spec), small.task(protocol), protocol, seed=0)
    state = federation.start()
    before = deepcopy(state)
    federation.step(state)
    return before, state


def apart(one: State, other: State) -> float:
    """The distance of two states' weights."""
    return math.sqrt(sum(float((one.params[n] - value).square().sum()) for n, value in other.params.items()))


@pytest.mark.parametrize("spec", [PLAIN, COUPLED], ids=["mapped", "coupled"])
def test_weights_and_moments_keep_their_precision_and_end_close_by(spec: dict) -> None:
    protocol = replace(PROTOCOL, precision="float32", rounds=1)
    before, full = trained(spec, protocol)
    _, reduced = trained(spec, replace(protocol, products="bfloat16"))
    assert {value.dtype for value in reduced.params.values()} == {torch.float32}
    moments = [value for tensors in reduced.moments.values() for value in tensors.values()]
    assert {value.dtype for value in moments} == {torch.float32}
    assert 0 < apart(full, reduced) < apart(before, full) / 10


@pytest.mark.parametrize("name", [name for name in names() if get(name).family == "trajectory"])
def test_every_method_of_sequences_trains_with_reduced_products(name: str) -> None:
    protocol, method = replace(PROTOCOL, precision="float32", products="bfloat16", rounds=5), get(name)
    federation = Federation(method(method.Params()), trajectory_problem().task(protocol), protocol, seed=0)
    state = federation.run(federation.start())
    assert state.diverged is None
    assert {value.dtype for value in state.params.values()} == {torch.float32}


def test_an_unknown_precision_of_products_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^protocol\.products: expected full or bfloat16, found 'half'$"):
        Protocol(products="half")
