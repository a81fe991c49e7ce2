"""What a dataset's file may say of its sources, and that every dataset of the project says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.config.dataset import PanelDataset, TrajectoryDataset, read_dataset, read_section
from fedloom.data.panels.readers import READERS
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.points.readers import READERS as POINT_READERS
from fedloom.data.series.settings import SeriesSettings
from fedloom.data.sources import Form, RawFile, Wheel
from fedloom.data.trajectories.build import READERS as TRAJECTORY_READERS
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.errors import InputError
from fedloom.partition.panels import PanelPartitionSettings
from fedloom.partition.series import SeriesPartitionSettings
from fedloom.partition.trajectories import TrajectoryPartitionSettings

DATASETS = sorted((Path(__file__).parents[3] / "config" / "datasets").glob("*.yaml"))


def test_a_form_needs_a_source_and_a_whole_hash() -> None:
    with pytest.raises(InputError, match="expected a source"):
        Form("csv")
    with pytest.raises(InputError, match="expected 64 hexadecimal digits, found 'ABC'"):
        Form("csv", "ABC", mirror="a.csv")
    with pytest.raises(InputError, match="expected 64 hexadecimal digits"):
        Form("csv", wheel=Wheel("package", "1.0", "12", "values.csv"))


def test_a_file_names_a_public_address_or_says_that_there_is_none() -> None:
    with pytest.raises(InputError, match="found neither"):
        RawFile((Form("csv", mirror="a.csv"),))
    with pytest.raises(InputError, match="found both"):
        RawFile((Form("csv", urls=("http://localhost/a.csv",)),), mirror_only="owner/repository @ 1234abc")


def test_panel_settings_name_one_origin_and_name_parts() -> None:
    with pytest.raises(InputError, match="expected one of reader, regimes, trips, areas, found none"):
        PanelSettings("toy", "mph", 5)
    with pytest.raises(InputError, match="part: expected a name"):
        read_section(PanelSettings, '{"dataset": "a", "unit": "b", "interval_minutes": 5, "reader": "csv", '
                     '"select": {"last_steps": 3}}')  # fmt: skip


@pytest.mark.parametrize("path", DATASETS, ids=lambda path: path.stem)
def test_every_dataset_reads_and_its_sections_survive_the_way_to_a_script(path: Path) -> None:
    dataset = read_dataset(path)
    if isinstance(dataset, PanelDataset):
        assert dataset.panel.dataset == path.stem
        readers = READERS.by_name | POINT_READERS.by_name
        assert dataset.panel.reader is None or dataset.panel.reader in readers
        assert read_section(PanelSettings, dataset.settings("panel")) == dataset.panel
        assert read_section(PanelPartitionSettings, dataset.settings("partition")) == dataset.partition
    elif isinstance(dataset, TrajectoryDataset):
        assert dataset.trajectories.dataset == path.stem
        assert dataset.trajectories.reader is None or dataset.trajectories.reader in TRAJECTORY_READERS.by_name
        assert read_section(TrajectorySettings, dataset.settings("trajectories")) == dataset.trajectories
        assert read_section(TrajectoryPartitionSettings, dataset.settings("partition")) == dataset.partition
    else:
        assert dataset.series.dataset == path.stem
        assert read_section(SeriesSettings, dataset.settings("series")) == dataset.series
        assert read_section(SeriesPartitionSettings, dataset.settings("partition")) == dataset.partition
    for key, file in dataset.files.items():
        assert read_section(RawFile, dataset.fetch_section(key)) == file


def test_a_dataset_is_of_one_family(tmp_path: Path) -> None:
    text = "title: toy\nlicence: none\n"
    (tmp_path / "toy.yaml").write_text(text)
    with pytest.raises(InputError, match="panel or trajectories or series: expected one such section, found none"):
        read_dataset(tmp_path / "toy.yaml")
    (tmp_path / "toy.yaml").write_text(text + "panel: {unit: mph}\ntrajectories: {unit: clicked}\n")
    with pytest.raises(InputError, match="expected one such section, found panel and trajectories"):
        read_dataset(tmp_path / "toy.yaml")


def test_trajectories_come_from_one_origin() -> None:
    with pytest.raises(InputError, match="trajectories: expected either reader or generate, found none"):
        TrajectorySettings("toy", "clicked")


def test_a_typo_in_a_dataset_file_is_named(tmp_path: Path) -> None:
    text = DATASETS[0].read_text().replace("horizon:", "horizn:")
    (tmp_path / "toy.yaml").write_text(text)
    with pytest.raises(InputError, match=r"toy.yaml: .*partition.horizn"):
        read_dataset(tmp_path / "toy.yaml")
    with pytest.raises(InputError, match="did you mean 'toy'"):
        read_dataset(tmp_path / "tyo.yaml")
