"""An artifact as it is planned: which runs it shows, what it reads of them, what its script is told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedloom.config.dataset import AnyDataset
from fedloom.config.files import NAMES
from fedloom.config.study import Artifact
from fedloom.report.registry import Drawing

ENDINGS = {"table": ("csv", "md", "tex"), "figure": ("pdf", "png")}
SHOWN_OF_A_RUN = ("run.json", "rounds.parquet", "metrics.parquet", "diagnostics.safetensors")


class RunKey(NamedTuple):
    """What tells a run from every other run of a scale."""

    dataset: str
    method: str
    variant: str
    seed: int

    def folder(self, scale: str) -> str:
        """The run's place below ``results/runs``."""
        return f"{scale}/{self.dataset}/{self.method}/{self.variant}/seed{self.seed}"


@dataclass(frozen=True)
class ArtifactPlan:
    """An artifact and exactly the runs it shows, in the order in which the scale names them."""

    study: str
    name: str
    scale: str
    artifact: Artifact
    drawing: Drawing
    foremost: str
    runs: tuple[RunKey, ...]
    datasets: Mapping[str, AnyDataset]

    @property
    def kind(self) -> str:
        """Table or figure, as its drawing function makes it."""
        return self.drawing.kind

    @property
    def stem(self) -> str:
        """Path of the artifact's files without their endings."""
        return f"results/{self.study}/{self.name}"

    @property
    def files(self) -> list[str]:
        """The files of the artifact."""
        return [f"{self.stem}.{ending}" for ending in ENDINGS[self.kind]]

    @property
    def run_files(self) -> list[str]:
        """What the artifact reads of its runs."""
        files = (*SHOWN_OF_A_RUN, *(f"{name}.parquet" for name in self.artifact.also))
        return [f"{folder}/{file}" for folder in self.run_folders for file in files]

    @property
    def panel_files(self) -> list[str]:
        """What the artifact reads of its data, and of how they were dealt to clients or cut into windows."""
        data = [
            self.datasets[name].data_files.of(dataset=name).paths[file]
            for name in self.shown_datasets
            for file in self.datasets[name].shown_files
        ]
        return [*data, *(f"{folder}/partition.json" for folder in self.partition_folders)]

    @property
    def references(self) -> list[str]:
        """The file of published numbers, where there is one."""
        return [f"config/references/{self.artifact.reference}.csv"] if self.artifact.reference else []

    @property
    def arguments(self) -> list[str]:
        """What the scripts of tables and figures are told about the artifact."""
        of, published = self.artifact, ["--reference", *self.references] if self.artifact.reference else []
        drawn = ["--draw", of.draw, "--options", as_json(of.options)]
        # A shell command would lose what is empty.
        drawn += ["--foremost", self.foremost] if self.foremost else []
        said = ["--scale", self.scale, "--caption", of.caption, *(["--notes", of.notes] if of.notes else [])]
        named = ["--names", NAMES, "--labels", labels_of(self.datasets, self.shown_datasets)]
        shown = ["--panels", *self.panel_folders, "--partitions", *self.partition_folders, "--runs", *self.run_folders]
        return [*drawn, *said, *named, *published, *(["--also", *of.also] if of.also else []), *shown]

    @property
    def run_folders(self) -> list[str]:
        """Folders of the runs that it shows."""
        return [f"results/runs/{key.folder(self.scale)}" for key in self.runs]

    @property
    def panel_folders(self) -> list[str]:
        """Folders of the panels, trajectories or series of these runs."""
        return [self.datasets[name].data_files.of(dataset=name).folder for name in self.shown_datasets]

    @property
    def partition_folders(self) -> list[str]:
        """Folders of the partitions that say how data were dealt to clients, or cut into windows."""
        return [self.datasets[name].partition_files.of(dataset=name).folder for name in self.shown_datasets]

    @property
    def shown_datasets(self) -> list[str]:
        """Datasets of these runs, in the order in which the scale names them."""
        return list(dict.fromkeys(key.dataset for key in self.runs))


def labels_of(datasets: Mapping[str, AnyDataset], names: Iterable[str]) -> str:
    """Datasets' names in print, where they have one, as JSON."""
    return as_json({name: datasets[name].label for name in names if datasets[name].label})


def as_json(content: Mapping[str, Any]) -> str:
    """``content`` as one line of JSON, in its own order, which is that of columns and rows."""
    return json.dumps(content, ensure_ascii=False)
