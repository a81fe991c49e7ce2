"""On CUDA the same program gives the same numbers as on the CPU."""

from __future__ import annotations

import pytest
import torch

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Method
from fedloom.federation.randomness import bits, client_keys
from fedloom.federation.rounds import Federation
from fedloom.methods.atlas import Atlas
from fedloom.methods.central_lstm import CentralLstm
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.local_lstm import LocalLstm
from fedloom.methods.st_split_vfl import StSplitVfl
from fedloom.methods.weekly_profile import WeeklyProfile
from fedloom.models.bilstm import BiLstm
from fedloom.models.forecaster import Forecaster

METHODS = [
    Atlas(Atlas.Params(encoder="compact")),
    FedAvg(FedAvg.Params(), Forecaster(Forecaster.Params(encoder="compact"))),
    WeeklyProfile(),
    LocalLstm(LocalLstm.Params(), BiLstm(BiLstm.Params(hidden=5))),
    StSplitVfl(StSplitVfl.Params(k=1, code=3, hidden=5, pretrain_epochs=1)),
    CentralLstm(CentralLstm.Params(hidden=5)),
]


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_training_on_cuda_equals_training_on_the_cpu(method: Method) -> None:
    ends = []
    for device in ("cpu", "cuda"):
        federation = Federation(method, problem(equal=method.couples).task(device=device), PROTOCOL, seed=1)
        state = federation.run(federation.start())
        ends.append({n: w.cpu() for n, w in federation.weights(state).items()})
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight, rtol=1e-7, atol=1e-7)


@pytest.mark.gpu
def test_draws_on_cuda_are_the_same_bits() -> None:
    ids = ["a", "b", "c"]
    assert torch.equal(bits(client_keys(ids), 100), bits(client_keys(ids, "cuda"), 100).cpu())
