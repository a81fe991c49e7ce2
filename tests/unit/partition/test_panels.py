"""Windows of the published protocol, scalers of training rows, and an artifact that reads back as it was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from fedloom.data.panels.panel import Panel, no_edges
from fedloom.data.split import PARTS
from fedloom.errors import InputError
from fedloom.partition.folder import PanelPartition, read_partition, write_partition
from fedloom.partition.panels import (
    PanelPartitionSettings,
    make_panel_partition,
    split_steps,
    window_starts,
)

SEVEN, SIX = (0.7, 0.1, 0.2), (0.6, 0.2, 0.2)
SMALL = PanelPartitionSettings(history=3, horizon=2)


def panel(values: np.ndarray, literal: float | None = 0) -> Panel:
    stamps = pd.date_range("2024-01-01", periods=len(values), freq="5min", name="timestamp")
    ids = [f"n{i}" for i in range(values.shape[1])]
    nodes = pd.DataFrame({"lat": np.nan, "lon": np.nan}, index=pd.Index(ids, name="id"))
    about = {"dataset": "toy", "interval_minutes": 5, "missing_literal": literal}
    table = pd.DataFrame(values, index=stamps, columns=ids, dtype=np.float32)
    return Panel(table, nodes, no_edges(), about=about)


def random_panel(steps: int = 60, nodes: int = 3) -> Panel:
    rng = np.random.default_rng(0)
    values = rng.normal(50, 10, (steps, nodes))
    values[rng.random(values.shape) < 0.2] = np.nan
    return panel(values)


@pytest.mark.parametrize(
    ("dataset", "steps", "split", "parts", "windows"),
    [
        ("METR-LA", 34_272, SEVEN, (23_991, 3_427, 6_854), (23_968, 3_404, 6_831)),
        ("PEMS-BAY", 52_116, SEVEN, (36_482, 5_211, 10_423), (36_459, 5_188, 10_400)),
        ("PEMS03", 26_208, SIX, (15_726, 5_241, 5_241), (15_703, 5_218, 5_218)),
        ("PEMS04", 16_992, SIX, (10_196, 3_398, 3_398), (10_173, 3_375, 3_375)),
        ("KnowAir", 11_688, SEVEN, (8_183, 1_168, 2_337), (8_160, 1_145, 2_314)),
    ],
)
def test_steps_and_windows_are_those_of_the_published_protocol(
    dataset: str, steps: int, split: tuple[float, float, float], parts: tuple[int, ...], windows: tuple[int, ...]
) -> None:
    limits = split_steps(steps, split)
    assert tuple(high - low for low, high in limits.values()) == parts
    assert tuple(len(window_starts(limits[part], 12, 12, reach_back=False)) for part in PARTS) == windows


@pytest.mark.parametrize("missing_in", [False, True])
@pytest.mark.parametrize("kind", ["client", "global"])
def test_scalers_are_those_of_scikit_learn_on_training_rows(kind: str, missing_in: bool) -> None:
    made = random_panel()
    settings = replace(SMALL, scaler=kind, missing_in_scaler=missing_in)  # type: ignore[arg-type]
    partition = make_panel_partition(made, settings)
    rows = made.values.iloc[slice(*partition.about["split"]["train"])].astype(float)
    rows = rows.fillna(0) if missing_in else rows
    rows = rows if kind == "client" else rows.melt()[["value"]]
    expected = StandardScaler().fit(rows.to_numpy())
    np.testing.assert_allclose(partition.clients["mean"], np.broadcast_to(expected.mean_, 3), rtol=1e-6)
    np.testing.assert_allclose(partition.clients["std"], np.broadcast_to(expected.scale_, 3), rtol=1e-6)


def test_a_constant_client_is_scaled_by_one() -> None:
    assert make_panel_partition(panel(np.full((60, 1), 7.0)), SMALL).clients["std"].tolist() == [1.0]


def test_every_client_shares_one_list_of_windows() -> None:
    partition = make_panel_partition(random_panel(), SMALL)
    assert (partition.windows["client"] == -1).all()
    counts = partition.windows["part"].value_counts()
    assert (partition.clients[list(PARTS)] == counts[list(PARTS)].to_numpy()).all().all()


def test_the_artifact_reads_back_as_it_was_written(tmp_path: Path) -> None:
    partition = make_panel_partition(random_panel(), SMALL)
    write_partition(partition, tmp_path)
    again = read_partition(PanelPartition, tmp_path)
    assert again.about == partition.about
    pd.testing.assert_frame_equal(again.clients, partition.clients)
    pd.testing.assert_frame_equal(again.windows, partition.windows)


def test_a_broken_artifact_is_refused(tmp_path: Path) -> None:
    write_partition(make_panel_partition(random_panel(), SMALL), tmp_path)
    pd.DataFrame({"client": [1]}).to_parquet(tmp_path / "windows.parquet")
    with pytest.raises(InputError, match=r"windows.parquet: columns: expected client, part, start, found client"):
        read_partition(PanelPartition, tmp_path)
    (tmp_path / "windows.parquet").unlink()
    with pytest.raises(InputError, match=r"windows.parquet: .* found no such file"):
        read_partition(PanelPartition, tmp_path)


def test_what_cannot_be_split_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="toy: validation part: expected 5 steps, found 4"):
        make_panel_partition(random_panel(steps=40), SMALL)
    silent = random_panel()
    silent.values.iloc[:42, 1] = np.nan
    with pytest.raises(InputError, match="toy: node n1: expected readings in training, found none"):
        make_panel_partition(silent, SMALL)
    with pytest.raises(InputError, match="fill: expected raw data with a literal"):
        make_panel_partition(panel(np.ones((60, 1)), literal=None), replace(SMALL, fill="raw"))


@pytest.mark.parametrize(
    ("settings", "line"),
    [({"history": 0}, "history: expected at least 1 step"), ({"split": (0.7, 0.1, 0.1)}, "split: expected three")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        PanelPartitionSettings(**settings)  # type: ignore[arg-type]
