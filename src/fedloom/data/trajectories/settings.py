"""What a dataset's file says of its trajectories. Plain data: the readers and generators get these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedloom.data.named import Option
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.errors import InputError


@dataclass(frozen=True)
class TrajectorySettings:
    """How raw files, or a generator, become trajectories."""

    dataset: str
    unit: str  # of the outcome, for captions
    part: str | None = None  # how a part of an official dataset is named wherever its numbers appear
    reader: str | None = None  # a name of fedloom.data.trajectories.build
    options: dict[str, Option] = field(default_factory=dict)
    generate: DktSynth | None = None

    def __post_init__(self) -> None:
        """Raise InputError unless exactly one origin of the trajectories is named."""
        if (self.reader is None) == (self.generate is None):
            found = "both" if self.reader else "none"
            raise InputError(f"trajectories: expected either reader or generate, found {found}")
