"""The few switches a user turns: ``config/config.yaml``, ``snakemake --config key=value`` and ``FEDLOOM_MIRROR``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from fedloom.config.checks import Strict, check


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def seed_list(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    """A number of seeds counts from 0; a list is taken as it is."""
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


Seed = Annotated[int, Field(ge=0)]
Seeds = Annotated[int, Field(ge=1)] | Annotated[tuple[Seed, ...], Field(min_length=1)]


class Settings(Strict):
    """What one call of the pipeline builds, and where it computes."""

    scale: str = Field("quick", description="a file of config/scales: quick, desk or paper")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto uses CUDA where there is one")
    studies: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)] = Field(
        ("atlas",), description="files of config/studies"
    )
    seeds: Seeds | None = Field(None, description="a number or a list; replaces what the scale says for every run")
    mirror: str | None = Field(None, description="a folder that already holds raw files; only a cache")


def read_settings(config: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings from a merged Snakemake config; a mirror that is not set there comes from ``FEDLOOM_MIRROR``.

    Raises:
        InputError: an unknown key or a value that is not allowed.
    """
    settings = check(Settings, dict(config), "config")
    if settings.mirror is None and environment.get("FEDLOOM_MIRROR"):
        return settings.model_copy(update={"mirror": environment["FEDLOOM_MIRROR"]})
    return settings
