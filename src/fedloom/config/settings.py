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


def _seeds(value: Any) -> Any:
    if isinstance(value, list | tuple):  # Snakemake's command line hands over the parts of a list as text
        value = [int(part) if isinstance(part, str) and part.isdecimal() else part for part in value]
    counted = type(value) is int and value > 0
    listed = isinstance(value, list | tuple) and all(type(seed) is int and seed >= 0 for seed in value)
    if not counted and not (listed and value and len(set(value)) == len(value)):
        raise ValueError("how many (1 or more), or a list of different numbers from 0")
    return value


Seeds = Annotated[int | tuple[int, ...], BeforeValidator(_seeds)]


class Settings(Strict):
    """What one call of the pipeline builds, and where it computes."""

    scale: str = Field("quick", description="a file of config/scales: quick, desk or paper")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto uses CUDA where there is one")
    studies: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)] | None = Field(
        None, description="files of config/studies; null: all that the scale names"
    )
    seeds: Seeds | None = Field(None, description="how many, or a list; replaces what the scale says for every run")
    mirror: str | None = Field(None, description="a folder that already holds raw files; only a cache")

    @property
    def gpus(self) -> int:
        """GPUs that a job on a device asks a scheduler for: none for ``auto``, which takes what it finds."""
        return int(self.device == "cuda")


def read_settings(config: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings from a merged Snakemake config; a mirror that is not set there comes from ``FEDLOOM_MIRROR``.

    Raises:
        InputError: an unknown key or a value that is not allowed.
    """
    settings = check(Settings, dict(config), "config")
    if settings.mirror is None and environment.get("FEDLOOM_MIRROR"):
        return settings.model_copy(update={"mirror": environment["FEDLOOM_MIRROR"]})
    return settings
