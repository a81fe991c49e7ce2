"""The package without Snakemake: panels from what a user has, runs trained and loaded, models asked about new data."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.check.problems import PROTOCOL, series_problem
from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.table import write_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.forecast.stream import forecasts
from fedloom.federation import runs
from fedloom.library import load_panel, load_run, train
from fedloom.library.trained import Forecaster, Rebuilder, WorldModel
from fedloom.methods import registry
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition

CPU = torch.device("cpu")
WINDOWS = PanelPartitionSettings(history=6, horizon=4)


def readings(hours: int = 240) -> pd.DataFrame:
    """Three sensors with a daily wave, each at its own time of day."""
    stamps = pd.date_range("2024-03-01", periods=hours, freq="h")
    return pd.DataFrame(
        {f"s{i}": 50 + 20 * np.sin(2 * np.pi * (np.arange(hours) + 3 * i) / 24) for i in range(3)}, index=stamps
    )


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory: pytest.TempPathFactory) -> Forecaster:
    """A federation of the three sensors, trained for two rounds."""
    model = train(
        load_panel(readings(), name="waves"), "fedavg", model={"encoder": "compact"},
        protocol={"rounds": 2, "batch": 32}, partition=WINDOWS, out=tmp_path_factory.mktemp("results"),
    )  # fmt: skip
    assert isinstance(model, Forecaster)
    return model


def test_a_forecast_of_known_readings_is_the_one_that_evaluation_judges(forecaster: Forecaster) -> None:
    judged = next(iter(forecasts(forecaster.run, forecaster.weights, forecaster.run.task, "test")))
    first = int(forecaster.run.task.starts["test"][0, 0])
    found = forecaster.forecast(readings().iloc[first : first + WINDOWS.history])
    np.testing.assert_allclose(found.to_numpy(), judged.forecast_CBH[:, 0].T.numpy(), rtol=1e-6)
    assert list(found.index) == list(readings().index[first + 6 : first + 10])


def test_a_loaded_run_forecasts_what_the_trained_one_does(forecaster: Forecaster) -> None:
    results = forecaster.data.parents[2]
    again = load_run(results / "runs" / "library" / "waves" / "fedavg" / "base" / "seed0")
    later = readings(480).iloc[300:320]
    pd.testing.assert_frame_equal(again.forecast(later), forecaster.forecast(later))
    assert again.clients == ["s0", "s1", "s2"]
    assert again.spec["protocol"]["rounds"] == 2


def test_what_came_long_before_a_forecast_does_not_change_it(forecaster: Forecaster) -> None:
    later = readings(480).iloc[300:400]
    pd.testing.assert_frame_equal(forecaster.forecast(later), forecaster.forecast(later.iloc[-6:]))


def test_readings_that_cannot_be_forecast_are_refused_in_one_line(forecaster: Forecaster) -> None:
    later = readings(480).iloc[300:320]
    for wrong, said in {
        "columns: expected every sensor of the run, found no 's1'": later.drop(columns="s1"),
        "rows: expected at least 6, found 5": later.iloc[:5],
        "stamps: expected one every 60 minutes, found 2024-03-13 13:30:00": later.rename(
            index={later.index[1]: later.index[1] + pd.Timedelta(minutes=30)}
        ),
        "stamps: expected local time as in the panel, found offsets from UTC": later.tz_localize("UTC"),
        "row 1: expected a stamp like .*, found '0'": later.reset_index(drop=True),
        "column 's1', row 1: expected a number, found 'many'": later.assign(s1="many"),
        "expected a panel or a table with stamps as its index, found a str": "data/mine.csv",
        "expected a panel or a table with stamps as its index, found a ndarray": later.to_numpy(),
        "interval: expected 60 minutes as in training, found 120": load_panel(later.iloc[::2]),
        "expected a reading among the last 6 steps, found none": later * np.nan,
    }.items():
        with pytest.raises(InputError, match=f"^readings: {wrong}$"):
            forecaster.forecast(said)


def test_a_panel_is_forecast_as_its_readings_are(forecaster: Forecaster) -> None:
    later = readings(480).iloc[300:320]
    pd.testing.assert_frame_equal(forecaster.forecast(load_panel(later)), forecaster.forecast(later))


@pytest.mark.parametrize("fill", ["mean", "last"])
def test_a_recent_gap_is_filled_as_one_in_training_is(fill: Literal["mean", "last"], tmp_path: Path) -> None:
    gappy = readings().drop(readings().index[[200, 202, 203]])
    gappy.iloc[198, 1] = np.nan
    panel = load_panel(gappy, name="gappy")
    windows = dataclasses.replace(WINDOWS, split=(0.6, 0.1, 0.3), fill=fill)
    model = train(panel, "local", model={"encoder": "compact"}, protocol={"rounds": 0}, partition=windows, out=tmp_path)
    assert isinstance(model, Forecaster)
    judged = next(iter(forecasts(model.run, model.weights, model.run.task, "test")))
    first = 199  # of a test window whose history of six has three absent steps and a missing reading
    window = int((model.run.task.starts["test"][0] == first).nonzero())
    given = gappy[gappy.index < readings().index[first + WINDOWS.history]]
    np.testing.assert_allclose(model.forecast(given), judged.forecast_CBH[:, window].T.numpy(), rtol=1e-6)


def test_a_panel_is_printed_in_one_line() -> None:
    panel = load_panel(readings().drop(readings().index[7]), name="waves")
    assert repr(panel) == (
        "Panel(waves: 3 nodes, 240 steps of 60 minutes, 2024-03-01 00:00:00 to 2024-03-10 23:00:00, 0.4% missing)"
    )


def test_what_is_no_panel_is_not_trained_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^panel: expected what load_panel gives, found a str$"):
        train("data/mine.csv", "fedavg", out=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"^mine: expected a table, a CSV file or the folder of a panel, found a list$"
    ):
        load_panel([1, 2])


def test_stamps_of_a_table_with_offsets_are_brought_to_the_clock_that_is_named() -> None:
    table = readings().tz_localize("UTC")
    assert load_panel(table).values.index.equals(readings().index)
    there = load_panel(table, timezone="Europe/Vienna")
    assert there.values.index[0] == pd.Timestamp("2024-03-01 01:00")


def test_a_panel_comes_from_a_table_a_file_or_a_folder(forecaster: Forecaster, tmp_path: Path) -> None:
    table = readings().drop(readings().index[7])
    table.iloc[3, 1] = -1.0
    table.to_csv(tmp_path / "mine.csv")
    for source in (table, tmp_path / "mine.csv"):
        panel = load_panel(source, missing=-1.0)
        assert panel.about["interval_minutes"] == 60
        assert panel.about["repairs"] == {"inserted_steps": 1}
        assert panel.values.isna().sum().tolist() == [1, 2, 1]
    assert load_panel(forecaster.data).about["dataset"] == "waves"
    with pytest.raises(InputError, match="expected a table, a CSV file or the folder of a panel"):
        load_panel(tmp_path / "nothing.csv")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "fedal"}, r"^method: expected one that forecasts, found fedal \(family series\)$"),
        ({"method": "fedavgg"}, "^method: expected one of "),
        ({"params": {"rate": 1}}, "^params of fedavg: parameter: expected one of .*; found 'rate'$"),
        ({"protocol": {"rounds": -1}}, "^protocol: protocol.rounds: expected at least 0, found -1$"),
        ({"method": "fedgru", "model": {"encoder": "wide"}}, "^model: fedgru has a network of its own"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(asked: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        train(load_panel(readings()), **{"method": "fedavg", "out": tmp_path, **asked})


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json: expected a run, found no such file$"):
        load_run(tmp_path)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldModel:
    """A federation of a generated world, trained for one round and laid out as a pipeline does."""
    results = tmp_path_factory.mktemp("results")
    beside, place = results / "data" / "small", results / "runs" / "quick" / "small" / "fedavg" / "base" / "seed0"
    made = generate(DktSynth(sequences=120, length=6, sites=3))
    write_trajectories(made, beside / "trajectories")
    write_partition(make_trajectory_partition(made, TrajectoryPartitionSettings(clients=2)), beside / "partition")
    spec = {"dataset": "small", "family": "trajectory", "method": "fedavg", "variant": "base", "seed": 0}
    spec |= {"params": {}, "model": {"name": "latent_world", "params": {}}, "protocol": {"rounds": 1, "batch": 32}}
    runs.train_run(
        spec, "0", registry.make, beside / "trajectories", beside / "partition", place, results / "state", CPU
    )
    model = load_run(place)
    assert isinstance(model, WorldModel)
    return model


def test_a_world_model_answers_for_every_test_sequence_that_is_long_enough(world: WorldModel) -> None:
    chance = world.simulate([0, 1, 1], first=2, draws=3)
    assert len(chance) == int(world.run.task.counts["test"].sum())
    assert chance.between(0, 1).all()
    assert not chance.equals(world.simulate([1, 0, 0], first=2, draws=3))
    with pytest.raises(InputError, match=r"^plan: expected a test sequence of at least 7 steps, found none so long$"):
        world.simulate([0] * 7)
    for plan, found in {(0, 99): "99", (0, 0.5): "0.5", (): "no action", "01": "a str"}.items():
        with pytest.raises(InputError, match=rf"^plan: expected actions from 0 to \d+, found {found}$"):
            world.simulate(plan)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^part: expected one of .*, found 'later'$"):
        world.simulate([0], part="later")
    for name, value in {"first": -1, "draws": 0}.items():
        with pytest.raises(InputError, match=rf"^{name}: expected at least \d, found {value}$"):
            world.simulate([0], **{name: value})  # type: ignore[arg-type]


@pytest.fixture
def rebuilder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rebuilder:
    """One model of everyone's recordings, trained for two rounds."""
    family = SimpleNamespace(read=lambda data, partition, protocol, device: series_problem().task(protocol))
    monkeypatch.setattr(runs.tasks, "get", lambda name: family)
    spec = {"dataset": "check", "family": "series", "method": "centralised", "variant": "base", "seed": 0, "params": {}}
    spec["model"] = {"name": "patch_transformer", "params": {"width": 8, "layers": 1, "heads": 2}}
    spec["protocol"] = dataclasses.asdict(dataclasses.replace(PROTOCOL, rounds=2, batches=2))
    place = tmp_path / "runs" / "quick" / "check" / "centralised" / "base" / "seed0"
    runs.train_run(spec, "0", registry.make, tmp_path / "data", tmp_path / "partition", place, tmp_path / "state", CPU)
    model = load_run(place)
    assert isinstance(model, Rebuilder)
    return model


@pytest.mark.parametrize("points", [10, 16, 45])
def test_a_series_of_any_length_has_its_gaps_filled_in_and_nothing_else_changed(
    rebuilder: Rebuilder, points: int
) -> None:
    series = 30 + 5 * np.sin(np.arange(points))
    gaps = series.copy()
    gaps[[1, *range(4, 8)]] = np.nan
    whole = rebuilder.reconstruct(gaps)
    assert np.isfinite(whole).all()
    kept = np.isfinite(gaps)
    np.testing.assert_array_equal(whole[kept], series[kept])
    # In another unit the same points are filled in by the same values in that unit.
    np.testing.assert_allclose(rebuilder.reconstruct(gaps * 9 + 4), whole * 9 + 4, rtol=1e-4)


def test_a_series_without_an_observed_point_or_of_an_unknown_client_is_refused(rebuilder: Rebuilder) -> None:
    with pytest.raises(InputError, match=r"^series: expected one axis with an observed point"):
        rebuilder.reconstruct(np.full(20, np.nan))
    with pytest.raises(InputError, match=r"^series: expected numbers along one axis, found a str$"):
        rebuilder.reconstruct("data/heart.csv")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^client: expected one of .*, found 'nobody'$"):
        rebuilder.reconstruct(np.arange(20.0), client="nobody")


def test_the_example_trains_forecasts_and_plots(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "forecast.png"
    done = subprocess.run(
        [sys.executable, str(repository / "examples" / "own_sensors.py"), str(out)],
        capture_output=True, text=True, check=True, env={"MPLBACKEND": "Agg", "PATH": ""},
    )  # fmt: skip
    errors = [float(line.split()[-2]) for line in done.stdout.splitlines()]
    assert len(errors) == 2
    assert max(errors) < 20  # a forecast of each sensor's mean is off by about 38
    assert out.stat().st_size > 10_000
