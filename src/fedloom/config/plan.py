"""What one call of the pipeline may build, and what each step reads and is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.config.artifact import ArtifactPlan, RunKey, labels_of
from fedloom.config.dataset import AnyDataset
from fedloom.config.files import NAMES
from fedloom.config.further import FURTHER
from fedloom.errors import InputError
from fedloom.federation.starting import SOURCE_FILES
from fedloom.report.names import run_of

Spec = dict[str, Any]

TOLD_OF_A_RUN = ("run.json", "rounds.parquet", "timing.parquet", "environment.json")
"""What the page tells of runs from which others start."""


def source_of(spec: Spec) -> RunKey | None:
    """The run that the run of ``spec`` starts from, of the same dataset and seed; None where it starts anew."""
    if "start" not in spec:
        return None
    return RunKey(spec["dataset"], *run_of(spec["start"]["run"]), spec["seed"])


@dataclass(frozen=True)
class Plan:
    """All that one call of the pipeline may build."""

    scale: str
    threads: int
    titles: Mapping[str, str]
    datasets: Mapping[str, AnyDataset]  # those of the runs, and those beside them
    runs: Mapping[RunKey, Spec]
    artifacts: tuple[ArtifactPlan, ...]
    targets: Mapping[str, tuple[str, ...]]
    further: Mapping[str, Mapping[RunKey, Spec]]  # what is computed of runs beside their metrics -> run -> settings
    about: str = ""  # what the scale is good for

    def of_family(self, family: str) -> str:
        """Expression that matches the datasets of ``family`` and no other."""
        names = sorted(name for name, dataset in self.datasets.items() if dataset.family == family)
        return "|".join(map(re.escape, names)) or "(?!)"

    def inputs(self, dataset: str, truth: bool = False, beside: bool = False) -> dict[str, str]:
        """What a run reads of ``dataset``: its data and its partition.

        Evaluation asks for more: the ``truth`` where there is one, and the same of the datasets ``beside`` it.
        """
        described = self.datasets[dataset]
        known = described.truth_files if truth else None
        artifacts = {"data": described.data_files, "partition": described.partition_files, "truth": known}
        own = {
            f"{kind}_{name}": path
            for kind, files in artifacts.items()
            if files is not None
            for name, path in files.of(dataset=dataset).paths.items()
        }
        others = described.beside if beside else {}
        read = {role: self.inputs(other, truth) for role, other in others.items()}
        return own | {f"beside_{role}_{name}": path for role, files in read.items() for name, path in files.items()}

    def judged_by(self, dataset: str, seed: str) -> dict[str, str]:
        """What the evaluation of a run on ``dataset`` reads beside the run."""
        measures = self.datasets[dataset].yardstick_files
        files = measures.of(dataset=dataset, seed=seed).paths if measures else {}
        known = self.inputs(dataset, truth=True, beside=True)
        return known | {f"yardsticks_{name}": path for name, path in files.items()}

    def judged_by_arguments(self, dataset: str, seed: str) -> str:
        """What the script of evaluation is told of the truth, of the datasets beside this one, and of yardsticks."""
        described = self.datasets[dataset]
        told = {"truth": described.truth_files, "yardsticks": described.yardstick_files}
        named = (f"--{name} {files.of(dataset=dataset, seed=seed).folder}" for name, files in told.items() if files)
        return " ".join((*named, self.beside_arguments(dataset)))

    def beside_arguments(self, dataset: str) -> str:
        """What a script is told of the datasets beside this one."""
        others = self.datasets[dataset].beside.items()
        return " ".join(f"--beside {role}={self.data_folder(other)}" for role, other in others)

    def role_files(self, dataset: str, role: str) -> list[str]:
        """The data of the dataset that has ``role`` beside this one; none where none has."""
        other = self.datasets[dataset].beside.get(role)
        return self._data_files(other) if other else []

    def role_arguments(self, dataset: str, role: str) -> str:
        """What a script is told of the dataset that has ``role`` beside this one."""
        other = self.datasets[dataset].beside.get(role)
        return f"--{role} {self.data_folder(other)}" if other else ""

    def raw_files(self, dataset: str) -> list[str]:
        """What data are built from: raw files with the notes of where they came from, folders and datasets."""
        described = self.datasets[dataset]
        raw = [f"results/raw/{dataset}/{key}{part}" for key in described.files for part in ("", ".json")]
        return [*raw, *described.own_folders, *(path for o in described.built_from for path in self._data_files(o))]

    def built_from_arguments(self, dataset: str) -> str:
        """What the script that builds data is told of the dataset from whose data it does."""
        others = self.datasets[dataset].built_from
        return " ".join(f"--{self.datasets[other].section} {self.data_folder(other)}" for other in others)

    def data_folder(self, dataset: str) -> str:
        """Folder of the dataset's panel, trajectories or series."""
        return self.datasets[dataset].data_files.of(dataset=dataset).folder

    def _data_files(self, dataset: str) -> list[str]:
        return list(self.datasets[dataset].data_files.of(dataset=dataset).paths.values())

    def spec(self, run: Mapping[str, str]) -> Spec:
        """The spec of the run that the wildcards ``run`` name; ``InputError`` where no study asks for it."""
        key = RunKey(run["dataset"], run["method"], run["variant"], int(run["seed"]))
        if key not in self.runs:
            raise InputError(f"scale {self.scale}: no study runs {'/'.join(map(str, key))}")
        return self.runs[key]

    def settings_of(self, further: str, run: Mapping[str, str]) -> Spec:
        """How ``further`` is computed of the run that the wildcards name; ``InputError`` where nothing shows it."""
        key = RunKey(run["dataset"], run["method"], run["variant"], int(run["seed"]))
        settings = self.further.get(further, {})
        if key not in settings:
            raise InputError(f"scale {self.scale}: no artifact shows {further} of {'/'.join(map(str, key))}")
        return settings[key]

    def source_files(self, run: Mapping[str, str]) -> dict[str, str]:
        """What the training of the run that the wildcards name reads of the run that it starts from."""
        folder = self._source_folder(run)
        return {f"start_{file.partition('.')[0]}": f"{folder}/{file}" for file in SOURCE_FILES} if folder else {}

    def source_argument(self, run: Mapping[str, str]) -> str:
        """What the script of training is told of the run that it starts from."""
        folder = self._source_folder(run)
        return f"--start {folder}" if folder else ""

    def _source_folder(self, run: Mapping[str, str]) -> str:
        key = source_of(self.spec(run))
        return f"results/runs/{key.folder(self.scale)}" if key else ""

    def artifact(self, study: str, name: str) -> ArtifactPlan:
        """The artifact ``name`` of ``study``; ``InputError`` where the study has none of that name at this scale."""
        for artifact in self.artifacts:
            if (artifact.study, artifact.name) == (study, name):
                return artifact
        raise InputError(f"scale {self.scale}: study {study} has no artifact {name}")

    def constraints(self) -> dict[str, str]:
        """For every wildcard of the rules the expression that matches what is planned and nothing else."""
        allowed = {field: sorted({str(getattr(key, field)) for key in self.runs}) for field in RunKey._fields}
        allowed |= {"scale": [self.scale], "study": sorted(self.titles), "dataset": sorted(self.datasets)}
        for kind in ("table", "figure"):
            allowed[kind] = sorted({artifact.name for artifact in self.artifacts if artifact.kind == kind})
        return {wildcard: "|".join(map(re.escape, values)) or "(?!)" for wildcard, values in allowed.items()}

    def study_metrics(self, study: str) -> list[str]:
        """The metrics of all runs that the artifacts of ``study`` show."""
        shown = (file for each in self.artifacts if each.study == study for file in each.run_files)
        wanted = tuple(f"/{name}.parquet" for name in ("metrics", *FURTHER))
        return list(dict.fromkeys(file for file in shown if file.endswith(wanted)))

    @property
    def page_files(self) -> list[str]:
        """What the page reads: the artifacts, and what these read of runs and panels."""
        files = [file for each in self.artifacts for file in (*each.files, *each.run_files, *each.panel_files)]
        files += [f"{folder}/{file}" for folder in self._started_from for file in TOLD_OF_A_RUN]
        return [*dict.fromkeys(files), NAMES, *self._study_pages, *self._hashed, *self._described]

    @property
    def _started_from(self) -> list[str]:
        """Folders of the runs that shown ones start from, where no artifact shows them themselves."""
        shown = dict.fromkeys(key for each in self.artifacts for key in each.runs)
        found, asked = dict[str, None](), list(shown)
        while asked:
            source = source_of(self.runs[asked.pop()])
            if source and source not in shown:
                found[f"results/runs/{source.folder(self.scale)}"] = None
                asked.append(source)
        return sorted(found)

    @property
    def _described(self) -> list[str]:
        """What all data of runs, and those beside them, say of themselves."""
        return [self.datasets[name].data_files.of(dataset=name).paths["about"] for name in self.datasets]

    @property
    def _hashed(self) -> list[str]:
        """What identifies the data: the notes of the raw files, and the tables that were built."""
        files = (file for name in self.datasets for file in (*self.raw_files(name), *self._data_files(name)))
        noted = (file for file in files if file.endswith(".parquet") or file.startswith("results/raw/"))
        return list(dict.fromkeys(file for file in noted if file.endswith((".parquet", ".json"))))

    @property
    def _study_pages(self) -> list[str]:
        """What is written on the studies, where a page is."""
        pages = (f"docs/studies/{study}.md" for study in self.titles)
        return [page for page in pages if Path(page).is_file()]

    @property
    def page_arguments(self) -> list[str]:
        """What the script of the page is told."""
        titles = [f"{study}={title}" for study, title in self.titles.items()]
        runs = dict.fromkeys(folder for each in self.artifacts for folder in each.run_folders)
        runs |= dict.fromkeys(self._started_from)
        panels = [self.data_folder(name) for name in self.datasets]
        artifacts = [each.stem for each in self.artifacts]
        licences = [f"{name}={each.title}: {each.licence}" for name, each in self.datasets.items()]
        return [
            *("--scale", self.scale),
            *(["--about", self.about] if self.about else []),
            *("--studies", *titles),
            *("--artifacts", *artifacts),
            *("--runs", *runs),
            *("--panels", *panels),
            *("--licences", *licences),
            *("--names", NAMES, "--labels", labels_of(self.datasets, self.datasets)),
            *(["--notes", *self._study_pages] if self._study_pages else []),
            *("--files", *self._hashed),
        ]
