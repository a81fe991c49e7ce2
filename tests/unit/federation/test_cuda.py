"""On CUDA the same program gives the same numbers as on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedloom.check.method import family_of
from fedloom.check.problems import PROTOCOL
from fedloom.check.problems.registry import problem_for
from fedloom.federation.method import Method
from fedloom.federation.randomness import bits, client_keys
from fedloom.federation.rounds import Federation
from fedloom.methods.atlas import Atlas
from fedloom.methods.cast import Cast
from fedloom.methods.central_lstm import CentralLstm
from fedloom.methods.cnfgnn import Cnfgnn
from fedloom.methods.dcrnn import Dcrnn
from fedloom.methods.fast import Fast
from fedloom.methods.fedal import FeDaL
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedgru import FedGru
from fedloom.methods.fedgtp import FedGtp
from fedloom.methods.ffts import FFTS
from fedloom.methods.gwnet import Gwnet
from fedloom.methods.local_lstm import LocalLstm
from fedloom.methods.st_split_vfl import StSplitVfl
from fedloom.methods.stdn import Stdn
from fedloom.methods.stid import Stid
from fedloom.methods.weekly_profile import WeeklyProfile
from fedloom.models.bilstm import BiLstm
from fedloom.models.forecaster import Forecaster
from fedloom.models.patch_transformer import PatchTransformerModel

PATCHES = PatchTransformerModel.Params(width=8, layers=2, heads=2)
METHODS = [
    Atlas(Atlas.Params(encoder="compact")),
    FedAvg(FedAvg.Params(), Forecaster(Forecaster.Params(encoder="compact"))),
    WeeklyProfile(),
    LocalLstm(LocalLstm.Params(), BiLstm(BiLstm.Params(hidden=5))),
    StSplitVfl(StSplitVfl.Params(k=1, code=3, hidden=5, pretrain_epochs=1)),
    CentralLstm(CentralLstm.Params(hidden=5)),
    FedGru(FedGru.Params(hidden=5)),
    FedGtp(FedGtp.Params(hidden=5)),
    Cnfgnn(Cnfgnn.Params(hidden=4, width=6, message=3)),
    Dcrnn(Dcrnn.Params(hidden=5)),
    Gwnet(Gwnet.Params(channels=4, skip=8, end=8, embedding=3)),
    Stid(Stid.Params(width=4, depth=1)),
    Cast(Cast.Params(width=4, depth=3, environments=3, code=2, heads=2, hidden=(6, 8))),
    Stdn(Stdn.Params(width=4, heads=2, order=2, codes=3, layers=1)),
    Fast(Fast.Params(width=4, layers=1, experts=2, agents=2)),
    FeDaL(FeDaL.Params(core_rows=3, core_share=0.06, core_steps=2), PatchTransformerModel(PATCHES)),
    FFTS(FFTS.Params(), PatchTransformerModel(replace(PATCHES, dbe=True))),
]


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_training_on_cuda_equals_training_on_the_cpu(method: Method) -> None:
    ends = []
    for device in ("cpu", "cuda"):
        federation = Federation(
            method, problem_for(family_of(method), method.couples).task(device=device), PROTOCOL, seed=1
        )
        state = federation.run(federation.start())
        ends.append({n: w.cpu() for n, w in federation.weights(state).items()})
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight, rtol=1e-7, atol=1e-7)


@pytest.mark.gpu
def test_draws_on_cuda_are_the_same_bits() -> None:
    ids = ["a", "b", "c"]
    assert torch.equal(bits(client_keys(ids), 100), bits(client_keys(ids, "cuda"), 100).cpu())
