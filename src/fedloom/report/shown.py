"""What an artifact shows: the runs it was given, with the data they were run on and the numbers a paper prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.numpy import load_file

from fedloom.data.described import read_about
from fedloom.errors import InputError
from fedloom.evaluation.schema import read_metrics
from fedloom.partition.folder import read_partition_about
from fedloom.report.names import Names, Run
from fedloom.report.references import COLUMNS, read_references


@dataclass(frozen=True)
class Shown:
    """One artifact: its name, what config says of it, and the folders of exactly the runs it shows.

    ``data`` are folders of panels, trajectories or series, ``dealt`` of how these were partitioned, ``reference`` is
    the csv of published values. ``foremost`` is the method that the study proposes, ``notes`` what the study adds to
    what the drawing function says, ``labels`` what datasets are called in print. ``also`` names what else is shown of
    the runs: ``adapted`` what their models do after an epoch on held-out sets, for example.
    """

    study: str
    name: str
    scale: str
    caption: str
    folders: tuple[Path, ...]
    data: tuple[Path, ...]
    dealt: tuple[Path, ...] = ()
    reference: Path | None = None
    also: tuple[str, ...] = ()
    foremost: str = ""
    notes: str = ""
    names: Names = field(default_factory=Names)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """How messages name the artifact."""
        return f"{self.study}/{self.name}"

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run, in the order of a table: who it is, how it ended, its folder (see ``read_record``)."""
        records = [read_record(folder) for folder in self.folders]
        if not records:
            raise InputError(f"{self.where}: expected at least one run to show, found none")
        unknown = {r["dataset"] for r in records} - set(self.panels)
        if unknown:
            raise InputError(f"{self.where}: expected the data of {min(unknown)}, found {list(self.panels)}")
        datasets, order = list(self.panels), self.names.order
        records.sort(key=lambda r: (datasets.index(r["dataset"]), order((r["method"], r["variant"])), r["seed"]))
        return pd.DataFrame(records)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The metrics of all runs, one below the other."""
        files = [f"{name}.parquet" for name in ("metrics", *self.also)]
        return pd.concat([read_metrics(folder / file) for folder in self.runs["folder"] for file in files])

    @property
    def datasets(self) -> list[str]:
        """Datasets of the runs, in the order in which their data were given."""
        return list(dict.fromkeys(self.runs["dataset"]))

    @cached_property
    def panels(self) -> dict[str, dict[str, Any]]:
        """Dataset -> what its panel, trajectories or series say of themselves."""
        return {about["dataset"]: about for about in map(read_about, self.data)}

    @cached_property
    def places(self) -> dict[str, Path]:
        """Dataset -> folder of its panel, trajectories or series."""
        return dict(zip(self.panels, self.data, strict=True))

    @cached_property
    def partitions(self) -> dict[str, dict[str, Any]]:
        """Dataset -> how it was dealt to clients or cut into windows, where that was given."""
        return {about["dataset"]: about for about in map(read_partition_about, self.dealt)}

    @cached_property
    def references(self) -> pd.DataFrame:
        """Published values (see ``read_references``); none where no file was given."""
        return read_references(self.reference) if self.reference else pd.DataFrame(columns=COLUMNS)

    def label(self, dataset: str) -> str:
        """The dataset's name in print; one without a label that is a part goes by the part that it is."""
        return self.labels.get(dataset) or self.panels[dataset]["part"] or dataset

    @property
    def compared(self) -> list[Run]:
        """The methods' variants that are shown, in order, those of the method that the study proposes first.

        Columns, legends and colours follow it, so that a method looks the same in all figures of the same runs.
        """
        return self.foremost_first(runs_in(self.runs))

    @property
    def ours(self) -> Run:
        """The base of the method that the study proposes."""
        return self.foremost, "base"

    def foremost_first(self, runs: list[Run]) -> list[Run]:
        """``runs``, those of the method that the study proposes before all others."""
        return sorted(runs, key=lambda run: run[0] != self.foremost)

    def folders_of(self, dataset: str, run: Run) -> dict[int, Path]:
        """Seed -> folder of a method's variant on a dataset."""
        runs = self.runs[(self.runs[["dataset", "method", "variant"]] == [dataset, *run]).all(axis=1)]
        return dict(zip(runs["seed"], runs["folder"], strict=True))

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


def runs_in(frame: pd.DataFrame) -> list[Run]:
    """The methods' variants in ``frame``, each once, in order."""
    return list(dict.fromkeys(zip(frame["method"], frame["variant"], strict=True)))


def of_run(frame: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The rows of a method's variant."""
    return frame[(frame["method"] == run[0]) & (frame["variant"] == run[1])]


def of_federation(log: pd.DataFrame, quantity: str) -> pd.Series:
    """What a log (see ``Shown.rounds``) has of the whole federation, by round."""
    return log[(log["quantity"] == quantity) & (log["client"] == "all")].set_index("round")["value"]


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
