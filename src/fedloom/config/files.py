"""Where every artifact of the pipeline lies, and the names under which rules know its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NAMES = "config/names.yaml"
RUN = "results/runs/{scale}/{dataset}/{method}/{variant}/seed{seed}"
STATE = "results/state/{scale}/{dataset}/{method}/{variant}/seed{seed}"


@dataclass(frozen=True)
class Files:
    """An artifact of a dataset: a folder, whose path may hold wildcards, and in it one file for every name."""

    folder: str
    names: Mapping[str, str]  # name in rules -> file

    @property
    def paths(self) -> dict[str, str]:
        """Name in rules -> path."""
        return {name: f"{self.folder}/{file}" for name, file in self.names.items()}

    def of(self, **wildcards: object) -> Files:
        """The same artifact with values in place of its wildcards."""
        return Files(self.folder.format(**wildcards), self.names)


def _files(kind: str, *files: str) -> Files:
    """Files that rules know by their stems."""
    return Files(f"results/data/{{dataset}}/{kind}", {file.partition(".")[0]: file for file in files})


PANEL = _files(
    "panel", "values.parquet", "nodes.parquet", "edges.parquet", "features.parquet", "truth.parquet", "about.json"
)
PANEL_PARTITION = _files("partition", "clients.parquet", "windows.parquet", "partition.json")

TRAJECTORIES = _files("trajectories", "trajectories.parquet", "about.json")
TRUTH = Files("results/data/{dataset}/truth", {"values": "truth.safetensors", "settings": "truth.json"})
TRAJECTORY_PARTITION = _files("partition", "clients.parquet", "assignment.parquet", "partition.json")
YARDSTICKS = _files("yardsticks/seed{seed}", "rows.parquet", "propensity.safetensors")

SERIES = _files("series", "series.parquet", "about.json")
SERIES_PARTITION = _files("partition", "clients.parquet", "scaling.parquet", "windows.parquet", "partition.json")
