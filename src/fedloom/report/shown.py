"""What an artifact shows: the runs it was given, with the panels they were run on and the numbers a paper prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.numpy import load_file

from fedloom.data.described import read_about
from fedloom.errors import InputError
from fedloom.evaluation.schema import read_metrics
from fedloom.partition.folder import read_partition_about
from fedloom.report.labels import dataset_label, order
from fedloom.report.references import COLUMNS, read_references


@dataclass(frozen=True)
class Shown:
    """One artifact: its name, what config says of it, and the folders of exactly the runs it shows.

    ``panels`` maps a dataset to what its panel, trajectories or series say of themselves, ``places`` to their folder,
    ``partitions`` to how it was dealt to clients, where that was given; ``references`` holds published values.
    ``adapted``: it also shows what the runs' models do after an epoch on held-out sets.
    """

    study: str
    name: str
    scale: str
    caption: str
    folders: tuple[Path, ...]
    panels: dict[str, dict[str, Any]]
    references: pd.DataFrame
    places: dict[str, Path]
    partitions: dict[str, dict[str, Any]]
    adapted: bool = False

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run, in the order of a table: who it is, how it ended, its folder (see ``read_record``)."""
        records = [read_record(folder) for folder in self.folders]
        if not records:
            raise InputError(f"{self.study}/{self.name}: expected at least one run to show, found none")
        unknown = {r["dataset"] for r in records} - set(self.panels)
        if unknown:
            raise InputError(
                f"{self.study}/{self.name}: expected the panel of {min(unknown)}, found {list(self.panels)}"
            )
        records.sort(key=lambda r: (list(self.panels).index(r["dataset"]), order(r["method"], r["variant"]), r["seed"]))
        return pd.DataFrame(records)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The metrics of all runs, one below the other."""
        files = ("metrics.parquet", "adapted.parquet") if self.adapted else ("metrics.parquet",)
        return pd.concat([read_metrics(folder / file) for folder in self.runs["folder"] for file in files])

    @property
    def datasets(self) -> list[str]:
        """Datasets of the runs, in the order in which their panels were given."""
        return list(dict.fromkeys(self.runs["dataset"]))

    def label(self, dataset: str) -> str:
        """The dataset's name in print."""
        return dataset_label(dataset, self.panels[dataset]["part"])

    def record(self, folder: Path) -> dict[str, Any]:
        """What a run's ``run.json`` says: its spec, its clients and their samples, its parameters, how it ended."""
        found: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return found

    def rounds(self, folder: Path) -> pd.DataFrame:
        """The log of a run: round, client, quantity, value."""
        return pd.read_parquet(folder / "rounds.parquet")

    def diagnostics(self, folder: Path) -> dict[str, Any]:
        """The arrays of a run's diagnostics by name."""
        return load_file(folder / "diagnostics.safetensors")

    @property
    def facts(self) -> str:
        """What every caption ends with: scale, seeds, rounds, and the part of a dataset where it is one."""
        runs = self.runs
        sentences = [f"Scale {self.scale}", f"seeds {', '.join(str(seed) for seed in sorted(set(runs['seed'])))}"]
        by_dataset = {self.label(d): sorted(set(of["asked"])) for d, of in runs.groupby("dataset", sort=False)}
        rounds = [f"{'/'.join(map(str, found))} rounds on {name}" for name, found in by_dataset.items()]
        return "; ".join([*sentences, *rounds]) + "."


def show(
    study: str,
    name: str,
    scale: str,
    caption: str,
    runs: Iterable[Path],
    panels: Iterable[Path],
    references: Path | None = None,
    partitions: Iterable[Path] = (),
    adapted: bool = False,
) -> Shown:
    """Collect what the artifact ``name`` of ``study`` shows. Raises InputError where data do not describe themselves.

    ``panels`` are folders of panels, trajectories or series, ``partitions`` of partitions.
    """
    described = [(read_description(folder), folder) for folder in panels]
    published = pd.DataFrame(columns=COLUMNS) if references is None else read_references(references)
    by_dataset = {report["dataset"]: report for report, _ in described}
    places = {report["dataset"]: folder for report, folder in described}
    dealt = [read_partition_about(folder) for folder in partitions]
    by_deal = {each["dataset"]: each for each in dealt}
    return Shown(study, name, scale, caption, tuple(runs), by_dataset, published, places, by_deal, adapted)


def read_description(folder: Path) -> dict[str, Any]:
    """Return what a panel or a set of trajectories says of itself. Raises InputError where it says nothing."""
    return read_about(folder)


def read_record(folder: Path) -> dict[str, Any]:
    """Return who a run is and how it ended, from its ``run.json``.

    Keys: dataset, method, variant, seed, verdict, reason, rounds (that it took), selected_round, asked (rounds that the
    protocol asked for), folder. Raises InputError where there is no such file.
    """
    path = folder / "run.json"
    if not path.is_file():
        raise InputError(f"{path}: expected the record of a run, found no such file")
    record = json.loads(path.read_text(encoding="utf-8"))
    identity = {key: record["spec"][key] for key in ("dataset", "method", "variant", "seed")}
    how = {key: record[key] for key in ("verdict", "reason", "rounds", "selected_round")}
    return identity | how | {"asked": record["spec"]["protocol"]["rounds"], "folder": folder}
