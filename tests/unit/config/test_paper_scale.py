"""The paper scale is the papers' protocol: window counts, batches and rounds as published."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fedloom.config.resolve import read_plan
from fedloom.config.settings import Settings
from fedloom.partition.panels import PanelPartitionSettings, split_steps, window_starts

STEPS = {"metr-la": 34_272, "pems-bay": 52_116, "pems03": 26_208, "pems04": 16_992, "knowair": 11_688}
BATCHES = {"metr-la": 94, "pems-bay": 143, "pems03": 62, "pems04": 40, "knowair": 32}


@pytest.mark.parametrize("dataset", STEPS)
def test_an_epoch_has_as_many_batches_as_the_published_protocol(repository: Path, dataset: str) -> None:
    plan = read_plan(repository / "config", Settings(scale="paper"))
    specs = [spec for key, spec in plan.runs.items() if key.dataset == dataset and key.method == "atlas"]
    protocol, partition = specs[0]["protocol"], plan.datasets[dataset].partition
    assert isinstance(partition, PanelPartitionSettings)
    train = split_steps(STEPS[dataset], partition.split)["train"]
    windows = len(window_starts(train, partition.history, partition.horizon, partition.reach_back))
    assert math.ceil(windows / protocol["train_stride"] / protocol["batch"]) == BATCHES[dataset]
    assert (protocol["rounds"], protocol["epochs"], protocol["participation"]) == (200, 1, 1.0)
    assert specs[0]["params"]["encoder"] == "wide"
