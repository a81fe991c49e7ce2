"""From settings and raw files, or a generator, to checked trajectories."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from fedloom.data.bandit import open_bandit
from fedloom.data.diabetes import diabetes
from fedloom.data.dkt.log import generate
from fedloom.data.own_trajectories import csv
from fedloom.data.sequences import Sequences
from fedloom.data.settings import Option
from fedloom.data.statics import statics
from fedloom.data.tables import RawFolder
from fedloom.data.trajectories import TrajectorySet
from fedloom.data.trajectory_settings import TrajectorySettings
from fedloom.errors import InputError

READERS: dict[str, Callable[..., Sequences]] = {
    reader.__name__: reader for reader in (statics, diabetes, open_bandit, csv)
}


def build_trajectories(settings: TrajectorySettings, raw: Path) -> TrajectorySet:
    """Return the trajectories that ``settings`` describe; ``raw`` is the folder of the dataset's raw files.

    Raises InputError for raw files that are missing, damaged or not what the settings say.
    """
    if settings.generate is not None:
        return generate(settings.generate, settings.dataset)
    assert settings.reader is not None
    read = _reader(settings.reader, settings.options)
    return read(RawFolder(raw), **settings.options).named(settings.dataset, settings.part, settings.unit)


def _reader(name: str, options: dict[str, Option]) -> Callable[..., Sequences]:
    if name not in READERS:
        raise InputError(f"trajectories: reader: expected one of {', '.join(sorted(READERS))}, found {name!r}")
    known = list(inspect.signature(READERS[name]).parameters.values())[1:]
    allowed = [option.name for option in known]
    unknown = [option for option in options if option not in allowed]
    if unknown:
        raise InputError(f"trajectories: options of {name}: expected {', '.join(allowed)}, found {unknown[0]!r}")
    needed = [option.name for option in known if option.default is option.empty and option.name not in options]
    if needed:
        raise InputError(f"trajectories: options of {name}: expected {needed[0]!r}, found none")
    return READERS[name]
