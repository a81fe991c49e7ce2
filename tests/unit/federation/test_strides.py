"""Thinned training and validation see every time of day."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.rounds import Federation
from fedloom.methods.fedavg import FedAvg
from fedloom.models.forecaster import Forecaster

MODEL = Forecaster(Forecaster.Params(encoder="compact", width=8, depth=1))


def test_thinned_training_updates_every_time_of_day() -> None:
    thinned = replace(PROTOCOL, rounds=12, train_stride=3)
    federation = Federation(FedAvg(FedAvg.Params(), MODEL), problem(equal=True).task(thinned), thinned, seed=0)
    before = federation.start().server["encoder.time_of_day"].clone()
    after = federation.run(federation.start()).server["encoder.time_of_day"]
    assert (before != after).any(-1).all(), "a time of day was never trained"


def test_thinned_validation_windows_are_fixed_and_fall_on_many_times_of_day() -> None:
    tasks = [problem(equal=True).task(replace(PROTOCOL, validation_stride=2)) for _ in range(2)]
    starts = tasks[0].starts["validation"][0]
    assert torch.equal(starts, tasks[1].starts["validation"][0])
    assert set((starts % 2).tolist()) == {0, 1}
    whole = problem(equal=True).task(replace(PROTOCOL, validation_stride=1)).starts["validation"][0]
    assert len(starts) == -(-len(whole) // 2)
