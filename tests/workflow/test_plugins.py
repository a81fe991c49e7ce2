"""A method from outside the package: found through its entry point, trained, and rerun for its own code alone."""

from __future__ import annotations

import importlib
from pathlib import Path

import pandas as pd
import pytest

from fedloom.check.method import check_method

METHOD = '''
"""Linear forecasters whose mean is shrunk by half, from a package of somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fedloom.federation.method import Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse


class Linear(nn.Linear):
    """Readings [B, T] to forecasts [B, H]."""

    def forward(self, batch: Windows) -> Tensor:
        return super().forward(batch.x)


class Slow(Method):
    """Half of every mean."""

    name = "slow"
    cite = "nobody"
    family = "forecast"
    shared = ("",)
    only_averages = False

    @dataclass(frozen=True)
    class Params:
        lr: float = 0.01

    def client(self, task: ForecastTask) -> nn.Module:
        return Linear(task.history, task.horizon)

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, Adam(self.params.lr)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        return Outcome(masked_mse(model(batch), batch))

    def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
        return {name: 0.5 * uploads.mean(values) for name, values in uploads.tensors.items()}
'''
OWN = {"train slow/base on tiny, seed 0", "evaluate slow/base on tiny, seed 0"}


def test_a_method_from_outside_trains_and_reruns_alone(built) -> None:
    assert len(METHOD.splitlines()) < 60
    # An installed package is a module and a folder of metadata on Python's path.
    source = built.root / "src"
    (source / "their_method.py").write_text(METHOD)
    (source / "theirs-1.0.dist-info").mkdir()
    (source / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (source / "theirs-1.0.dist-info" / "entry_points.txt").write_text("[fedloom.methods]\nslow = their_method\n")
    built.edit("config/scales/tiny.yaml", "[atlas, fedavg,", "[atlas, slow, fedavg,")
    shown = {f"atlas/{name}" for name in ("table1", "table_cost", "figure_curves", "figure_traffic", "figure_ranks")}
    shown |= {"atlas/claims", "results/claims.md", "results/atlas/metrics.parquet", "results/report.html"}
    assert built.planned() == OWN | shown
    built.run()
    table = pd.read_csv(built.root / "results" / "atlas" / "table1.csv")
    assert table.loc[table["method"] == "slow", "ours_mean"].notna().any()
    assert "| slow" in (built.root / "results" / "atlas" / "table1.md").read_text()
    built.edit("src/their_method.py", '"""Half of every mean."""', '"""Half of each mean."""  # shrinks')
    assert built.planned() == set()
    built.edit("src/their_method.py", "0.5", "0.25")
    assert built.planned() == OWN | shown


def test_that_method_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_method.py").write_text(METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    check_method(importlib.import_module("their_method").Slow)
