"""What a run's bits depend on: not on how often it is computed, and on the number of threads by rounding alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import Tensors
from fedloom.methods.atlas import Atlas

TOLERANCE = 1e-4  # relative, of weights after a few rounds in float32; docs/cluster.md states it


@pytest.fixture
def own_threads() -> Iterator[None]:
    """As many threads as before once the test is over."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trained(threads: int) -> Tensors:
    """Weights after training in float32 on so many threads."""
    torch.set_num_threads(threads)
    protocol = replace(PROTOCOL, precision="float32", batch=64)
    federation = Federation(Atlas(Atlas.Params(encoder="compact")), problem().task(protocol), protocol, seed=0)
    return federation.weights(federation.run(federation.start()))


@pytest.mark.usefixtures("own_threads")
def test_the_same_threads_give_the_same_bits_and_others_the_same_numbers() -> None:
    one, again, two = trained(1), trained(1), trained(2)
    for name, weight in one.items():
        assert torch.equal(weight, again[name])
        torch.testing.assert_close(weight, two[name], rtol=TOLERANCE, atol=TOLERANCE * float(weight.abs().mean()))
