"""A method that pools trains one model on everyone's samples, and every client is judged by it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from fedloom.check.problems import PROTOCOL, series_problem
from fedloom.federation import runs
from fedloom.federation.rounds import predictor
from fedloom.methods import registry
from fedloom.models.patch_transformer import PatchTransformerModel

SPEC = {
    "dataset": "check",
    "family": "series",
    "method": "centralised",
    "variant": "base",
    "seed": 0,
    "params": {},
    "model": {"name": "patch_transformer", "params": {"width": 8, "layers": 1, "heads": 2}},
    "protocol": dataclasses.asdict(dataclasses.replace(PROTOCOL, rounds=2, batches=2)),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[runs.Run, pd.DataFrame]:
    family = SimpleNamespace(read=lambda data, partition, protocol, device: series_problem().task(protocol))
    monkeypatch.setattr(runs.tasks, "get", lambda name: family)
    device, folders = torch.device("cpu"), (tmp_path / "data", tmp_path / "partition")
    runs.train_run(SPEC, "digest", registry.make, *folders, tmp_path / "run", tmp_path / "state", device)
    read = runs.read_run(tmp_path / "run", *folders, registry.make, device)
    return read, pd.read_parquet(tmp_path / "run" / "rounds.parquet")


def test_every_client_is_judged_by_the_one_model(run: tuple[runs.Run, pd.DataFrame]) -> None:
    weights = run[0].weights("last")
    assert isinstance(run[0].method.model, PatchTransformerModel)
    for value in weights.values():
        assert len(value) == 5
        assert torch.equal(value, value[:1].expand_as(value))
    rows = torch.arange(5)
    batch = run[0].task.batch("test", rows, torch.zeros(5, 1, dtype=torch.int64))
    assert predictor(run[0].method, run[0].skeleton, run[0].task, weights)(batch, rows).shape == batch.x.shape


def test_one_model_is_trained_and_nothing_travels(run: tuple[runs.Run, pd.DataFrame]) -> None:
    log = run[1]
    assert set(log["client"]) == {"all"}
    assert len(log.query("quantity == 'train_loss'")) == 2
    assert (log.query("quantity in ('bytes_up', 'bytes_down')")["value"] == 0).all()
