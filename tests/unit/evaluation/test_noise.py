"""Noise after training: on what clients share alone, as large as asked for, every draw judged on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.data.panels.panel import write_panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.noise import NOTHING_SHARED, CodebookNoise, Draw, disturb, noise_on, noisy_rows
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import read_metrics
from fedloom.federation.runs import Run, read_run, train_run
from fedloom.methods.registry import make
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition

CPU = torch.device("cpu")
ATLAS = {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4}
NOISE = {"kind": "gaussian", "scale": 0.05, "clip": 0.2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generated panel and its partition."""
    folder = tmp_path_factory.mktemp("data")
    panel = generate(Regimes(clients=4, steps=300, regimes=3))
    write_panel(panel, folder / "panel")
    write_partition(make_panel_partition(panel, PanelPartitionSettings(history=6, horizon=4)), folder / "partition")
    return folder


def run_of(data: Path, folder: Path, method: str, params: dict[str, Any], noise: dict[str, Any] | None = None) -> Run:
    """A run of one round."""
    spec = {"dataset": "regimes", "family": "forecast", "method": method, "variant": "base", "seed": 0}
    spec |= {"params": params, "model": None, "protocol": {"rounds": 1, "batch": 64, "noise": noise}}
    train_run(spec, "0", make, data / "panel", data / "partition", folder / "run", folder / "state", CPU)
    return read_run(folder / "run", data / "panel", data / "partition", make, CPU)


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Atlas after a round."""
    return run_of(data, tmp_path_factory.mktemp("run"), "atlas", ATLAS)


def mae(rows: pd.DataFrame, noise: str) -> pd.Series:
    """Pooled MAE over the whole horizon, by condition, of one kind of noise."""
    of = rows[(rows["metric"] == "mae") & (rows["unit"] == "pooled") & (rows["horizon"] == "all")]
    return of[of["condition"].str.contains(f"noise={noise}")].set_index("condition")["value"]


def test_every_draw_is_judged_and_all_but_no_noise_costs_nothing(run: Run) -> None:
    rows = noisy_rows(run, CodebookNoise(scales=(1e-9, 3.0), draws=3), 0.0)
    for kind in ("gaussian", "laplace", "rademacher"):
        values = mae(rows, kind)
        assert len(values) == 2 * 2 * 3  # scales, units, draws
        loud = values[values.index.str.contains("scale=3.0")]
        silent = values.drop(loud.index)
        assert np.ptp(silent) < 1e-5 < np.ptp(loud)
    assert set(rows["unit"]) == {"pooled", "mean"}


def test_noise_has_the_size_that_was_asked_for_and_is_one_for_all_clients(run: Run) -> None:
    weights = run.weights("selected")
    shared = {"codebook": weights["codebook"]}
    for kind in ("gaussian", "rademacher"):
        added = noise_on(shared, Draw(kind, 0.5, "entry", 0), 0)["codebook"] - shared["codebook"]
        assert torch.equal(added[0], added[-1])
        assert added[0].square().mean().sqrt() == pytest.approx(0.5, rel=0.5 if kind == "gaussian" else 1e-5)
    by_norm = noise_on(shared, Draw("rademacher", 0.5, "norm", 0), 0)["codebook"] - shared["codebook"]
    norms = shared["codebook"][0].norm(dim=-1, keepdim=True).expand_as(by_norm[0])
    torch.testing.assert_close(by_norm[0].abs(), 0.5 * norms)


def test_draws_and_seeds_differ_and_a_larger_scale_is_the_same_draw_grown(run: Run) -> None:
    shared = {"codebook": run.weights("selected")["codebook"].double()}

    def added(scale: float, number: int, seed: int) -> torch.Tensor:
        return noise_on(shared, Draw("laplace", scale, "entry", number), seed)["codebook"] - shared["codebook"]

    torch.testing.assert_close(2 * added(0.1, 0, 0), added(0.2, 0, 0))
    assert not torch.allclose(added(0.1, 0, 0), added(0.1, 1, 0))
    assert not torch.allclose(added(0.1, 0, 0), added(0.1, 0, 1))


def test_the_rows_come_with_the_norm_that_noise_is_read_by(data: Path, run: Run, tmp_path: Path) -> None:
    folders = Folders(run=data, data=data / "panel", partition=data / "partition")
    rows = as_metrics(noisy_rows(run, CodebookNoise(draws=1), 0.0), run.spec, "selected")
    norm = rows.loc[rows["metric"] == "row_norm", "value"].item()
    assert norm == pytest.approx(run.weights("selected")["codebook"][0].norm(dim=-1).mean().item(), rel=1e-5)
    with pytest.raises(Exception, match=r"run.json: expected a run, found no such file"):
        disturb(folders, tmp_path, make, CodebookNoise(), CPU)


def test_a_method_that_shares_nothing_has_null_rows_and_one_that_learned_with_noise_its_norm(
    data: Path, tmp_path: Path
) -> None:
    nothing = run_of(data, tmp_path / "nothing", "persistence", {})
    rows = noisy_rows(nothing, CodebookNoise(draws=1), 0.0)
    assert set(rows["reason"]) == {NOTHING_SHARED}
    assert rows["value"].isna().all()
    run_of(data, tmp_path / "noisy", "atlas", ATLAS, NOISE)
    folders = Folders(tmp_path / "noisy" / "run", data / "panel", data / "partition")
    disturb(folders, tmp_path, make, CodebookNoise(draws=1), CPU)
    assert read_metrics(tmp_path / "noisy.parquet")["metric"].tolist() == ["row_norm"]
