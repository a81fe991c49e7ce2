"""Real files: the forms of METR-LA hold one table, its graph is the published one, and every panel at hand builds."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import shortest_path

from fedloom.config.dataset import Dataset, read_dataset
from fedloom.data.download import fetch
from fedloom.data.panels.build import build_panel
from fedloom.data.panels.panel import Panel, write_panel
from fedloom.data.panels.settings import Select
from fedloom.data.raw import Raw
from fedloom.data.tables import read_wide
from fedloom.errors import InputError
from fedloom.partition.panels import make_panel_partition, split_steps

pytestmark = pytest.mark.mirror
CONFIG = Path(__file__).parents[3] / "config" / "datasets"


def mirror() -> Path:
    return Path(os.environ["FEDLOOM_MIRROR"])


def load(name: str, folder: Path) -> tuple[Dataset, Panel]:
    dataset = read_dataset(CONFIG / f"{name}.yaml")
    for key, file in dataset.files.items():
        fetch(file, f"{name}/{key}", folder / key, folder / "lock.json", mirror())
    return dataset, build_panel(dataset.panel, folder)


def adjacency(panel: Panel) -> np.ndarray:
    place = {node: i for i, node in enumerate(panel.nodes.index)}
    dense = np.zeros((len(place), len(place)))
    dense[panel.edges["src"].map(place), panel.edges["dst"].map(place)] = panel.edges["weight"]
    return dense


@pytest.mark.parametrize(
    ("name", "rows", "nodes", "missing"),
    [
        ("metr-la", 34_272, 207, 0.08109),
        ("pems-bay-108", 52_116, 108, 3.3e-5),
        ("pems08-tail", 7_156, 170, 0.0036),
        ("pems08-tail-40", 7_156, 40, 0.0051),
        ("melbourne", 27_387, 13, 0.0021),
        ("melbourne-18", 27_387, 18, 0.0443),
        ("beijing-prsa", 35_064, 12, 0.0208),
        ("scats", 2_976, 137, 0.0238),
        ("deldot", 17_567, 20, 0.011),
        ("cabspotting", 2_192, 72, 0.0),
        ("cabspotting-points", 548, 33, 0.0),
        ("melbourne-areas", 27_387, 7, 0.003),
    ],
)
def test_every_panel_at_hand_builds_and_can_be_split(
    name: str, rows: int, nodes: int, missing: float, tmp_path: Path
) -> None:
    dataset, panel = load(name, tmp_path / "raw")
    write_panel(panel, tmp_path / "panel")
    assert panel.values.shape == (rows, nodes)
    assert panel.about["missing_share"] == pytest.approx(missing, rel=0.03)
    assert (panel.about["part"] is None) == (name in ("metr-la", "beijing-prsa"))
    assert make_panel_partition(panel, dataset.partition).clients["test"].min() > 0


def test_the_official_csv_rebuilt_holds_the_table_of_the_parquet(tmp_path: Path) -> None:
    """The rebuilt bytes carry the published hash, so this is the official file."""
    source = mirror() / "metr-la" / "METR-LA.parquet"
    table = pd.read_parquet(source).set_index("timestamp").rename_axis(None)
    table.to_csv(tmp_path / "METR-LA.csv")
    form = next(form for form in read_dataset(CONFIG / "metr-la.yaml").files["values"].forms if form.form == "csv")
    assert hashlib.sha256((tmp_path / "METR-LA.csv").read_bytes()).hexdigest() == form.sha256
    official, packed = read_wide(Raw(tmp_path / "METR-LA.csv", "csv")), read_wide(Raw(source, "parquet"))
    pd.testing.assert_frame_equal(official.astype("float32"), packed.astype("float32"), check_freq=False)


@pytest.mark.parametrize(
    ("name", "published"), [("metr-la", "metr-la/adj_mx_dcrnn.npz"), ("pems-bay-108", "pems-bay/adj_mx_bay_dcrnn.npz")]
)
def test_the_graph_is_the_published_adjacency(name: str, published: str, tmp_path: Path) -> None:
    _, panel = load(name, tmp_path)
    with np.load(mirror() / published) as file:
        ids, expected = list(file["sensor_ids"].astype(str)), file["adj"]
    rows = [ids.index(node) for node in panel.nodes.index]
    np.testing.assert_allclose(adjacency(panel), expected[np.ix_(rows, rows)], atol=1e-6)


def test_the_40_sensors_of_pems08_lie_fewest_edges_from_the_best_connected_one(tmp_path: Path) -> None:
    _, whole = load("pems08-tail", tmp_path / "whole")
    _, part = load("pems08-tail-40", tmp_path / "part")
    joined = (adjacency(whole) > 0) | (adjacency(whole).T > 0)
    hops = shortest_path(joined.astype(np.float64), unweighted=True, indices=int(joined.sum(axis=1).argmax()))
    assert [int(node) for node in part.values.columns] == sorted(hops.argsort(kind="stable")[:40])
    assert len(part.edges) == 72


def test_the_18_sensors_of_melbourne_are_those_observed_in_training(tmp_path: Path) -> None:
    dataset, part = load("melbourne-18", tmp_path)
    every = build_panel(replace(dataset.panel, select=Select()), tmp_path).values
    observed = every.iloc[slice(*split_steps(len(every), dataset.partition.split)["train"])].notna().mean()
    assert sorted(part.values.columns) == sorted(observed.index[observed >= 0.8])
    assert observed[observed < 0.8].max() < 0.25
    assert not part.edges.empty


def test_the_last_steps_of_pems08_agree_with_its_first_steps_in_layout(tmp_path: Path, put: object) -> None:
    """The official npz layout, cut short, is too short for the part: one clear line."""
    name = "pems08-tail"
    dataset = read_dataset(CONFIG / f"{name}.yaml")
    put(tmp_path, "values", "npz", mirror() / "pems0x" / "pems08_first1282steps.npz")  # type: ignore[operator]
    put(tmp_path, "distances", "csv", mirror() / "pems0x" / "PEMS08_distance.csv")  # type: ignore[operator]
    with pytest.raises(InputError, match="last_steps: expected at least 7156 steps, found 1282"):
        build_panel(dataset.panel, tmp_path)


def test_pieces_of_porto_are_read_by_the_layout_of_the_whole(tmp_path: Path, put: object) -> None:
    put(tmp_path, "trips", "csv.gz", mirror() / "porto" / "train.1k.csv.gz")  # type: ignore[operator]
    whole = read_dataset(CONFIG / "porto.yaml")
    panel = build_panel(replace(whole.panel, hexagons=replace(whole.panel.hexagons, most=None)), tmp_path)  # type: ignore[union-attr]
    assert len(panel.values) == 8_760 - 1  # the hour that the clock skips in March
    vehicles = panel.values.sum(axis=1)
    # The first trip begins at midnight of UTC, which is an hour later in Porto's summer.
    assert vehicles.iloc[0] == 0 < vehicles.iloc[1]
    assert vehicles.loc["2013-07-01"].sum() == vehicles.sum() > 5_000
    assert panel.values.to_numpy().max() < 442
