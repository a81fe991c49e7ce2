"""Which studies' claims one call of the pipeline decides, and what that reads: all runs of the study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedloom.config.artifact import ENDINGS, labels_of
from fedloom.config.claims import claims_path, read_claims
from fedloom.config.dataset import read_dataset
from fedloom.config.files import NAMES
from fedloom.config.plan import Plan

TABLES = ("claims", "contradictions")
OF_A_RUN = ("run.json", "rounds.parquet", "diagnostics.safetensors")


@dataclass(frozen=True)
class ClaimsPlan:
    """The studies whose papers' claims are decided from the runs of ``plan``."""

    config: Path
    plan: Plan
    studies: tuple[str, ...]

    @property
    def titles(self) -> Mapping[str, str]:
        """Study -> its title."""
        return {study: self.plan.titles[study] for study in self.studies}

    @property
    def constraint(self) -> str:
        """Expression that matches these studies and no other."""
        return "|".join(map(re.escape, self.studies)) or "(?!)"

    def made(self, study: str) -> list[str]:
        """The files of a study's two tables; none where nothing is known of what its paper claims."""
        return [f"{stem}.{ending}" for stem in self.stems(study) for ending in ENDINGS["table"]]

    @property
    def files(self) -> list[str]:
        """The files of all studies' tables."""
        return [path for study in self.studies for path in self.made(study)]

    @property
    def all_stems(self) -> list[str]:
        """Paths of all these tables without their endings."""
        return [stem for study in self.studies for stem in self.stems(study)]

    def stems(self, study: str) -> list[str]:
        """Paths of these tables without their endings."""
        return [f"results/{study}/{table}" for table in TABLES] if study in self.studies else []

    def run_folders(self, study: str) -> list[str]:
        """All runs that the study shows."""
        folders = (folder for each in self.plan.artifacts if each.study == study for folder in each.run_folders)
        return list(dict.fromkeys(folders))

    def run_files(self, study: str) -> list[str]:
        """What is read of these runs, beside metrics."""
        return [f"{folder}/{file}" for folder in self.run_folders(study) for file in OF_A_RUN]

    def config_files(self, study: str) -> list[str]:
        """The claims, the paper's numbers, and names in print."""
        references = self.config / "references" / f"{study}.csv"
        return [str(claims_path(self.config, study)), str(references), NAMES]

    def arguments(self, study: str) -> list[str]:
        """What the script is told of the study."""
        said = ["--study", study, "--scale", self.plan.scale, "--config", str(self.config), "--labels", self.labels]
        return [*said, "--metrics", *self.plan.study_metrics(study), "--runs", *self.run_folders(study)]

    @property
    def page_arguments(self) -> list[str]:
        """What the script of the page over all studies is told."""
        titles = [f"{study}={title}" for study, title in self.titles.items()]
        folders = [f"results/{study}" for study in self.studies]
        return ["--scale", self.plan.scale, "--studies", *titles, "--folders", *folders, "--labels", self.labels]

    @cached_property
    def labels(self) -> str:
        """What all datasets are called in print: claims are also about those that this scale does not run."""
        known = {path.stem: read_dataset(path) for path in sorted((self.config / "datasets").glob("*.yaml"))}
        return labels_of(known, known)


def read_claims_plan(config: Path, plan: Plan) -> ClaimsPlan:
    """For those studies of ``plan`` that have runs and claims. Raises InputError where claims are not right."""
    shown = {artifact.study for artifact in plan.artifacts}
    studies = tuple(study for study in plan.titles if study in shown and claims_path(config, study).is_file())
    for study in studies:
        read_claims(config, study)
    return ClaimsPlan(config, plan, studies)
