"""What things are called in print, ``config/names.yaml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fedloom.config.checks import Strict, read_config
from fedloom.report.names import MethodName, Names, VariantName


class NamesFile(Strict):
    """Names in print; what is not listed is printed as it is."""

    methods: dict[str, MethodName] = Field(description="in the order of the tables")
    group: str = Field(description="of methods that are not listed")
    unranked: tuple[str, ...] = Field((), description="groups that compete with nothing, unless a study ranks them")
    variants: dict[str, dict[str, VariantName]] = Field({}, description="method -> variant, in the order of the tables")
    words: dict[str, str] = Field({}, description="metrics, reference rows, policies, estimators, sets")


def read_names(path: Path) -> Names:
    """The names that the file at ``path`` gives; ``InputError`` where it is not one."""
    read = read_config(NamesFile, path)
    return Names(read.methods, read.variants, read.words, read.group, read.unranked)
