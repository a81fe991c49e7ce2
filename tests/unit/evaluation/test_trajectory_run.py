"""From trajectories to metrics with clients as an uneven deal leaves them: without validation or test sequences, or
with outcomes that are all alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.truth import build_truth
from fedloom.data.trajectories.table import write_trajectories
from fedloom.data.trajectories.truth import TruthSettings, read_truth, write_truth
from fedloom.evaluation.causal.yardsticks import make_yardsticks, write_yardsticks
from fedloom.evaluation.evaluate import evaluate
from fedloom.evaluation.families import trajectory
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.schema import read_metrics
from fedloom.federation.runs import read_run, train_run
from fedloom.methods.registry import make
from fedloom.partition.folder import write_partition
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition

CPU = torch.device("cpu")
WORLD = DktSynth(sequences=300, length=6, sites=3)
USUAL, UNVALIDATED, CERTAIN, UNTESTED = range(4)
VALUED = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated world whose clients lack what the names above say; CERTAIN holds every sequence of right answers."""
    folder = tmp_path_factory.mktemp("data")
    made = generate(WORLD)
    write_trajectories(made, folder / "trajectories")
    settings = TruthSettings(window_start=4, draws=8, units=VALUED, floor_draws=4, horizons=(1, 2))
    write_truth(build_truth(WORLD, settings, made), folder / "truth")
    dealt = make_trajectory_partition(made, TrajectoryPartitionSettings(clients=4))
    assignment = dealt.assignment
    client = np.where(assignment["id"] % 3 == 0, UNVALIDATED, USUAL)
    client[(client == UNVALIDATED) & (assignment["part"] == "validation")] = USUAL
    client[(assignment["part"] == "train") & (assignment["id"] % 7 == 0)] = UNTESTED
    client[[bool((y == 1).all()) for y in made.table.sort_values("id")["y"]]] = CERTAIN
    changed = replace(dealt, assignment=assignment.assign(client=client.astype(np.int32)))
    held = pd.crosstab(client, assignment["part"])
    assert held.loc[UNVALIDATED, "validation"] == held.loc[UNTESTED, ["validation", "test"]].sum() == 0
    assert held.loc[CERTAIN].min() > 0
    write_partition(changed, folder / "partition")
    write_yardsticks(make_yardsticks(folder / "trajectories", folder / "partition", 0), folder / "yardsticks")
    return folder


def folders(data: Path, run: Path) -> Folders:
    """Where the evaluation of a run finds what it needs."""
    return Folders(run, data / "trajectories", data / "partition", data / "truth", yardsticks=data / "yardsticks")


def trained(data: Path, method: str) -> Path:
    """Train ``method`` so that every phase of it runs, keeping every second round's weights."""
    spec = {"dataset": "dkt-synth", "family": "trajectory", "method": method, "variant": "base", "seed": 0}
    spec |= {"params": {}, "model": {"name": "latent_world", "params": {}} if method != "fed_causaldiff" else None}
    spec["protocol"] = {"rounds": 5, "batch": 32, "participation": 0.5, "snapshot_every": 2}
    out = data / method
    train_run(spec, "0", make, data / "trajectories", data / "partition", out, data / "state" / method, CPU)
    return out


@pytest.fixture(scope="module", params=["fed_causaldiff", "local"])
def run(request: pytest.FixtureRequest, data: Path) -> Path:
    """The folder of a run that shares its world, or of one that shares nothing, trained and judged."""
    folder = trained(data, request.param)
    evaluate(folders(data, folder), folder, make, CPU)
    return folder


def test_training_bears_clients_that_cannot_be_validated(run: Path) -> None:
    log = pd.read_parquet(run / "rounds.parquet")
    nats = log[log["quantity"] == "validation_nats"].set_index("client")["value"]
    assert nats[["c01", "c03"]].isna().all()
    assert np.isfinite(nats[["c00", "c02"]]).all()
    scores = log.loc[log["quantity"] == "validation_score", "value"]
    assert len(scores) == 5
    assert np.isfinite(scores).all()


def test_a_client_that_cannot_be_scored_is_null_with_the_reason_and_the_others_have_scores(run: Path) -> None:
    metrics = read_metrics(run / "metrics.parquet")
    own = metrics[(metrics["selection"] == "selected") & (metrics["condition"] == "")].set_index(["metric", "unit"])
    assert own.loc[("auc", "c02"), "reason"] == "single_class"
    assert own.loc[("auc", "c03"), "reason"] == own.loc[("rmse", "c03"), "reason"] == "no valid step"
    for unit in ("c00", "c01", "pooled", "mean"):
        assert 0 <= own.loc[("auc", unit), "value"] <= 1
    assert own.loc[("auc", "mean"), "n"] == 2
    assert own.loc[("rmse", "mean"), "n"] == 3


def test_what_is_drawn_stands_in_the_place_of_the_real_sequence_however_many_are_drawn_at_once(
    run: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = folders(data, run)
    judge = trajectory.TrajectoryJudge(read_run(run, where.data, where.partition, make, CPU), where)
    monkeypatch.setattr("fedloom.federation.worlds.STEPS_AT_ONCE", 3 * 4 * 6)
    made, real = judge.train.generated(judge._world("last")), judge.train.sequences()
    assert torch.equal(made.x_NX, real.x_NX)
    assert torch.equal(made.client_N, real.client_N)
    assert not torch.equal(made.y_NL, real.y_NL)


def test_effects_and_values_have_numbers_for_all_clients_together(run: Path) -> None:
    metrics = read_metrics(run / "metrics.parquet")
    pooled = metrics[(metrics["selection"] == "selected") & (metrics["unit"] == "pooled")]
    known = pooled.set_index(["metric", "condition"])["value"]
    for metric in ("pehe_root", "pehe_mse", "ate_error"):
        for scope in ("step", "window"):
            assert np.isfinite(known[metric, f"scope={scope}"])
    assert np.isfinite(known["tstr_auc", "source=synthetic"])


def test_every_row_of_effects_that_is_written_holds_jensen(run: Path) -> None:
    metrics = read_metrics(run / "metrics.parquet")
    wide = metrics.set_index(["selection", "unit", "horizon", "condition", "metric"])["value"].unstack()
    wide = wide[["pehe_root", "ate_error"]].dropna()
    assert len(wide) > 10
    assert (wide["pehe_root"] >= wide["ate_error"] - 1e-12).all()


def test_kept_rounds_are_judged_on_the_same_units_with_the_rows_that_need_no_model(run: Path, data: Path) -> None:
    metrics = read_metrics(run / "metrics.parquet")
    of = metrics[(metrics["metric"] == "pehe_root") & metrics["condition"].str.contains("round=")]
    assert set(of["selection"]) == {"last"}
    assert set(of["n"]) == {VALUED}
    names = of["condition"].str.extract(r"(?:prediction=(\w+),)?round=(\d+),scope=window(,selectable=no)?$")
    assert names[1].notna().all()
    model = names[names[0].isna()]
    assert model[1].tolist() == ["1", "3", "4"]
    assert model[2].notna().tolist() == [True, True, False]
    constant = of["value"][names[0] == "constant_effect"]
    truth = read_truth(data / "truth")
    effect = (truth.value("always") - truth.value("never"))[truth.valued]
    np.testing.assert_allclose(constant, effect.std())


def test_fewer_units_are_the_same_ones_for_every_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trajectory, "SNAPSHOT_UNITS", 10)
    found = []
    for method in ("fed_causaldiff", "local"):
        folder = data / method if (data / method).exists() else trained(data, method)
        evaluate(folders(data, folder), tmp_path, make, CPU)
        metrics = read_metrics(tmp_path / "metrics.parquet")
        same = metrics["condition"].str.contains("prediction=constant_effect,round=1")
        found.append(metrics.loc[same & (metrics["metric"] == "pehe_root")])
    assert set(found[0]["n"]) == {10}
    assert found[0]["value"].tolist() == found[1]["value"].tolist()


def test_the_last_kept_round_is_the_last_one(run: Path, data: Path) -> None:
    read = read_run(run, data / "trajectories", data / "partition", make, CPU)
    assert read.snapshots == [1, 3, 4]
    last, kept = read.weights("last"), read.weights("round4")
    assert last.keys() == kept.keys()
    assert all(torch.equal(value, kept[name]) for name, value in last.items())
