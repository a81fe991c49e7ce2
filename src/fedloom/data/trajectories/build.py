"""From settings and raw files, or a generator, to checked trajectories."""

from __future__ import annotations

from pathlib import Path

from fedloom.data.named import Readers
from fedloom.data.raw import RawFolder
from fedloom.data.trajectories.bandit import open_bandit
from fedloom.data.trajectories.diabetes import diabetes
from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.own import csv
from fedloom.data.trajectories.sequences import Sequences
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.statics import statics
from fedloom.data.trajectories.table import TrajectorySet

READERS = Readers[Sequences]("trajectories", statics, diabetes, open_bandit, csv)


def build_trajectories(settings: TrajectorySettings, raw: Path) -> TrajectorySet:
    """Return the trajectories that ``settings`` describe; ``raw`` is the folder of the dataset's raw files.

    Raises InputError for raw files that are missing, damaged or not what the settings say.
    """
    if settings.generate is not None:
        return generate(settings.generate, settings.dataset)
    assert settings.reader is not None
    found = READERS.read(settings.reader, settings.options, RawFolder(raw))
    return found.named(settings.dataset, settings.part, settings.unit)
