"""A study, ``config/studies/{name}.yaml``: a paper's variants of its methods and the artifacts that show its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from fedloom.config.checks import Strict, choose, read_config
from fedloom.config.further import FURTHER
from fedloom.errors import InputError
from fedloom.federation.tasks import registry as families


class Artifact(Strict):
    """A table or figure: what draws it and the groups of runs that it shows."""

    draw: str = Field(description="the function of fedloom.report that draws it")
    options: dict[str, Any] = Field({}, description="of that function")
    shows: tuple[str, ...] = Field(min_length=1, description="groups of runs, as the scale names them")
    caption: str
    notes: str = Field("", description="what the study adds to what the function says below it")
    reference: str | None = Field(None, description="file of config/references with the published numbers")
    also: tuple[str, ...] = Field((), description="what it shows of its runs beside their metrics, such as adapted")


class Study(Strict):
    """One paper: what is run is said by the scale, what is shown and what a variant means is said here."""

    title: str
    family: str = Field(description="of tasks: what the methods of the study learn")
    foremost: str = Field("", description="the method that the paper proposes: first in tables, and what others meet")
    model: str | None = Field(None, description="client model of the methods that take one")
    variants: dict[str, dict[str, dict[str, Any]]] = Field(
        {},
        description="method -> variant -> parameters that differ from the method's base; below the keys model and "
        "protocol those of the client model and of the protocol; below start the run that it starts from, what it "
        "takes over and what it freezes; below clients the share of them that it is run on",
    )
    artifacts: dict[str, Artifact] = Field(min_length=1)
    targets: dict[str, tuple[str, ...]] = Field({}, description="further targets: name -> artifacts")


def read_study(folder: Path, name: str) -> Study:
    """The study ``name`` of ``folder``; ``InputError`` where it does not exist or does not agree with itself."""
    choose(name, (path.stem for path in folder.glob("*.yaml")), "config: studies")
    path = folder / f"{name}.yaml"
    study = read_config(Study, path)
    choose(study.family, families.names(), f"{path}: family")
    for artifact_name, artifact in study.artifacts.items():
        for further in artifact.also:
            choose(further, FURTHER, f"{path}: artifacts.{artifact_name}.also")
    for target, artifacts in study.targets.items():
        for named in artifacts:
            choose(named, study.artifacts, f"{path}: targets.{target}")
    for method, variants in study.variants.items():
        if variants.get("base"):
            raise InputError(f"{path}: variants.{method}.base: found {variants['base']}, expected no parameters")
    return study
