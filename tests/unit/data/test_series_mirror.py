"""The real series: whole, at the published sizes, cleaned as stated, and free of what evaluation holds out."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedloom.config.dataset import SeriesDataset, read_dataset
from fedloom.data.download import fetch
from fedloom.data.series.build import build_series
from fedloom.data.series.table import SeriesSet
from fedloom.errors import InputError
from fedloom.partition.leakage import check_leakage
from fedloom.partition.series import make_series_partition

pytestmark = pytest.mark.mirror
CONFIG = Path(__file__).parents[3] / "config" / "datasets"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[SeriesDataset, SeriesSet]]:
    found = {}
    for name in ("held-out", "real16"):
        dataset = read_dataset(CONFIG / f"{name}.yaml")
        assert isinstance(dataset, SeriesDataset)
        folder = tmp_path_factory.mktemp(name)
        for key, file in dataset.files.items():
            fetch(file, f"{name}/{key}", folder / key, folder / "lock.json", Path(os.environ["FEDLOOM_MIRROR"]))
        found[name] = dataset, build_series(dataset.series, folder)
    return found


def test_targets_have_their_published_sizes_and_splits(loaded: dict) -> None:
    _, data = loaded["held-out"]
    points = {client: each["points"] for client, each in data.about["counts"].items()}
    assert points["etth1"] == 7 * 14_400
    assert points["ettm2"] == 7 * 57_600
    assert points["weather"] == 21 * 52_696
    assert points["exchange"] == 8 * 7_588
    assert points["ili"] == 7 * 966
    assert points["m4-hourly"] == 373_372
    assert data.about["cleaned"]["weather"] == {"sentinel_points_to_missing": 81}
    assert data.about["cleaned"]["gecco-water"]["duplicate_stamps_left_out"] == 60
    hourly = data.table[data.table["client"] == "etth1"].iloc[0]
    assert (hourly["validation"], hourly["test"], hourly["season"]) == (8_640, 11_520, 24)
    events = data.table[data.table["client"] == "gecco-water"].iloc[0]
    assert np.sum(events["label"]) > 1_600


def test_pretraining_holds_at_least_sixteen_real_clients_of_seven_domains(loaded: dict) -> None:
    dataset, data = loaded["real16"]
    assert len(data.about["clients"]) >= 16
    assert len(set(data.about["domains"].values())) >= 7
    assert data.table["seconds"].min() < 1
    assert data.table["seconds"].max() == 7 * 86_400
    targets = set(loaded["held-out"][1].about["clients"])
    assert targets & set(data.about["clients"]) <= set(data.about["seen"])
    made = make_series_partition(data, dataset.partition)
    assert (made.clients > 0).all().all()


def test_nothing_that_is_held_out_is_pretrained_on_and_adding_it_is_noticed(loaded: dict) -> None:
    data, targets = loaded["real16"][1], loaded["held-out"][1]
    assert check_leakage(data, targets)["stretches"] > 5e6
    for client in ("etth2", "weather", "exchange", "ili"):
        leaked = targets.table[targets.table["client"] == client].assign(client="other")
        with pytest.raises(InputError, match=f"expected no values of held-out targets, found those of {client}"):
            check_leakage(SeriesSet(leaked, data.about), targets)
