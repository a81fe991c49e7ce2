"""A run's metrics are what one computes by hand from its panel, and the truth behind it is read off rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from fedloom.data.panels.panel import read_panel, write_panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.evaluation.evaluate import evaluate
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.blocks import BlockSums, block_length
from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.forecast.judged import Judged
from fedloom.evaluation.forecast.regimes import LEVEL, SIGNAL
from fedloom.evaluation.forecast.stream import forecasts
from fedloom.evaluation.forecast.truth import read_truth
from fedloom.evaluation.schema import read_metrics
from fedloom.federation.runs import read_run, train_run
from fedloom.methods.registry import make
from fedloom.partition.folder import PanelPartition, read_partition, write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition

CPU = torch.device("cpu")
HISTORY, HORIZON = 6, 8
ATLAS = {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generated panel and its partition."""
    folder = tmp_path_factory.mktemp("data")
    panel = generate(Regimes(clients=4, steps=400, regimes=3, missing_share=0.1))
    write_panel(panel, folder / "panel")
    settings = PanelPartitionSettings(history=HISTORY, horizon=HORIZON)
    write_partition(make_panel_partition(panel, settings), folder / "partition")
    return folder


def trained(data: Path, folder: Path, method: str, params: dict[str, Any], rounds: int = 1) -> Path:
    """Train a method for a round and return its folder."""
    spec = {"dataset": "regimes", "family": "forecast", "method": method, "variant": "base", "seed": 0}
    spec |= {"params": params, "model": None}
    spec["protocol"] = {"rounds": rounds, "batch": 64}
    train_run(spec, "0", make, data / "panel", data / "partition", folder / "run", folder / "state", CPU)
    return folder / "run"


def judged(data: Path, run: Path) -> pd.DataFrame:
    """Evaluate a run and return its metrics by unit, selection, metric, horizon and condition."""
    evaluate(Folders(run, data / "panel", data / "partition"), run, make, CPU)
    keys = ["unit", "selection", "metric", "horizon", "condition"]
    return read_metrics(run / "metrics.parquet").set_index(keys)


def windows_of(data: Path) -> NDArray[np.int64]:
    """Return the first input steps of the test windows."""
    windows = read_partition(PanelPartition, data / "partition").windows
    return windows.loc[windows["part"] == "test", "start"].to_numpy(dtype=np.int64)


def test_persistence_has_the_error_that_one_computes_from_the_panel(data: Path, tmp_path: Path) -> None:
    rows = judged(data, trained(data, tmp_path, "persistence", {}))
    values = read_panel(data / "panel").values
    last = values.ffill().to_numpy(dtype=np.float64)
    steps = windows_of(data)[:, None] + HISTORY + np.arange(HORIZON)
    error = np.abs(last[windows_of(data) + HISTORY - 1][:, None] - values.to_numpy(dtype=np.float64)[steps])
    for horizon, chosen in {"3": [2], "6": [5], "all": list(range(HORIZON))}.items():
        of = error[:, chosen]
        mae = rows.loc[("pooled", "selected", "mae", horizon, MASKED)]
        assert mae["value"] == pytest.approx(np.nanmean(of), rel=1e-5)
        assert mae["n"] == np.isfinite(of).sum()
        rmse = rows.loc[("pooled", "last", "rmse", horizon, MASKED), "value"]
        assert rmse == pytest.approx(np.nanmean(of**2) ** 0.5, rel=1e-5)
        node = rows.loc[(values.columns[2], "selected", "mae", horizon, MASKED), "value"]
        assert node == pytest.approx(np.nanmean(of[:, :, 2]), rel=1e-5)
    assert "12" not in rows.index.get_level_values("horizon")


def test_the_error_of_the_signal_is_that_of_the_noise(data: Path, tmp_path: Path) -> None:
    rows = judged(data, trained(data, tmp_path, "persistence", {}))
    panel = read_panel(data / "panel")
    signal = panel.truth[[f"signal/{node}" for node in panel.values.columns]].to_numpy(dtype=np.float64)
    noise = np.abs(panel.values.to_numpy(dtype=np.float64) - signal)
    steps = windows_of(data)[:, None] + HISTORY + np.arange(HORIZON)
    found = rows.loc[("pooled", "selected", "mae", "all", SIGNAL), "value"]
    assert found == pytest.approx(np.nanmean(noise[steps]), rel=1e-5)


def test_blocks_of_time_sum_to_the_whole(data: Path, tmp_path: Path) -> None:
    run = trained(data, tmp_path, "atlas", ATLAS)
    rows = judged(data, run)
    blocks = load_file(run / "diagnostics.safetensors")
    assert blocks["count"].shape[1] > 1
    mae = blocks["abs_error"].sum() / blocks["count"].sum()
    rmse = (blocks["sq_error"].sum() / blocks["count"].sum()) ** 0.5
    assert rows.loc[("pooled", "selected", "mae", "all", MASKED), "value"] == pytest.approx(mae, rel=1e-6)
    assert rows.loc[("pooled", "selected", "rmse", "all", MASKED), "value"] == pytest.approx(rmse, rel=1e-6)


@pytest.mark.parametrize("windows", [1, 7, 64, 10_000])
def test_everything_is_the_same_for_batches_of_any_size(data: Path, tmp_path: Path, windows: int) -> None:
    run = read_run(trained(data, tmp_path, "atlas", ATLAS), data / "panel", data / "partition", make, CPU)
    truth = read_truth(read_panel(data / "panel"), run.task.ids)

    def result(size: int) -> Any:
        chunk = size * len(run.task.ids)
        found = forecasts(run, run.weights("selected"), run.task, "test", chunk)
        return Judged(run.task, 0.0, truth).hear(found)

    one, other = result(windows), result(50)
    pd.testing.assert_frame_equal(one.rows(), other.rows(), rtol=1e-5)
    assert (one.assignment_CW == other.assignment_CW).all()
    for name, values in one.diagnostics().items():
        np.testing.assert_allclose(values, other.diagnostics()[name], rtol=1e-4)


def test_prototypes_that_follow_the_regimes_have_information_1_and_shuffled_ones_next_to_none(data: Path) -> None:
    panel = read_panel(data / "panel")
    nodes = list(panel.values.columns)
    truth = read_truth(panel, nodes)
    assert truth is not None
    starts = torch.from_numpy(np.tile(windows_of(data), (len(nodes), 1)))
    regime = truth.regime_CS[:, windows_of(data) + HISTORY - 1]
    renamed = torch.tensor([2, 0, 1])[regime]
    inputs = torch.from_numpy(panel.values.ffill().bfill().to_numpy().T.copy())
    said = truth.information(renamed, starts, inputs, HISTORY)
    perfect = said[said["condition"] == ""].set_index("unit")
    assert perfect.loc["pooled", "value"] == pytest.approx(1)
    np.testing.assert_allclose(perfect["value"].dropna(), 1)
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(renamed.flatten().numpy()).reshape(renamed.shape))
    of_shuffled = truth.information(shuffled, starts, inputs, HISTORY)
    assert of_shuffled[of_shuffled["condition"] == ""].set_index("unit").loc["pooled", "value"] < 0.1
    levels = [each[each["condition"] == LEVEL].drop(columns="condition") for each in (said, of_shuffled)]
    pd.testing.assert_frame_equal(*levels)
    assert 0 < levels[0].set_index("unit").loc["pooled", "value"] < 1


def test_a_diverged_run_has_every_error_null_with_its_reason(data: Path, tmp_path: Path) -> None:
    run = trained(data, tmp_path, "atlas", ATLAS)
    finished = judged(data, run)
    record = json.loads((run / "run.json").read_text())
    reason = "loss of client c03 is not finite in round 0, batch 2"
    (run / "run.json").write_text(json.dumps(record | {"verdict": "diverged", "reason": reason}))
    diverged = judged(data, run)
    assert diverged["value"].isna().all()
    assert set(diverged["reason"]) == {reason}
    of_finished_alone = {"nmi", "largest_use", "prototype_cosine", "use_distance"}
    assert set(diverged.index) == {
        key for key in finished.index if key[2] not in of_finished_alone and key[4] != SIGNAL
    }


def test_a_null_value_always_has_a_reason(data: Path, tmp_path: Path) -> None:
    rows = judged(data, trained(data, tmp_path, "atlas", ATLAS))
    assert (rows["value"].isna() == rows["reason"].notna()).all()


def test_blocks_are_days_unless_that_makes_fewer_than_twenty() -> None:
    assert block_length(0, 24 * 288 - 1, 288) == 288
    assert block_length(0, 1430, 288) == 71
    assert block_length(5, 5, 288) == 1


def test_windows_of_one_block_follow_each_other() -> None:
    starts = torch.arange(100, 180)[None]
    blocks = BlockSums(starts, steps_per_day=1000).block_CW[0]
    assert blocks.tolist() == sorted(blocks.tolist())
    assert len(blocks.unique()) == 20
