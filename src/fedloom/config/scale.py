"""A scale, ``config/scales/{name}.yaml``: how much is computed, on which data, by which methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from fedloom.config.checks import Strict, choose, read_config
from fedloom.config.settings import Seeds


class Group(Strict):
    """Runs of one dataset: every method with every seed."""

    dataset: str
    methods: tuple[str, ...] = Field(
        min_length=1, description="method, method/variant, or method/* for its base and all its variants"
    )
    seeds: Seeds
    protocol: dict[str, Any] = Field({}, description="what differs from the protocol of the scale")
    params: dict[str, dict[str, Any]] = Field({}, description="method -> parameters, over those of the scale")
    model: dict[str, Any] = Field({}, description="parameters of the client model, over those of the scale")


class StudyRuns(Strict):
    """What one study runs at this scale."""

    params: dict[str, dict[str, Any]] = Field({}, description="method -> parameters that differ from its defaults")
    model: dict[str, Any] = Field({}, description="parameters of the client model that differ from its defaults")
    also: dict[str, dict[str, Any]] = Field(
        {},
        description="what is computed of runs beside their metrics, such as adapted -> settings, where not by default",
    )
    groups: dict[str, tuple[Group, ...]] = Field(min_length=1)


class Scale(Strict):
    """Protocol and runs of one scale."""

    about: str = Field("", description="what it is good for, in a sentence that the page of results begins with")
    threads: int = Field(1, ge=1, description="processor cores of one training run")
    protocol: dict[str, Any] = Field({}, description="what differs from the protocol's defaults, for every run")
    studies: dict[str, StudyRuns]


def read_scale(folder: Path, name: str) -> Scale:
    """The scale ``name`` of ``folder``; ``InputError`` where it does not exist or is not a scale."""
    choose(name, (path.stem for path in folder.glob("*.yaml")), "config: scale")
    return read_config(Scale, folder / f"{name}.yaml")
