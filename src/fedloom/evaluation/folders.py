"""Where an evaluation finds a run, what it was trained on, and what else it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedloom.errors import InputError


@dataclass(frozen=True)
class Folders:
    """``truth`` is None where the data have no artifact of known truth, ``yardsticks`` where their family has none.

    beside: role -> data folder (panel, trajectories or series) of another dataset that evaluation reads.
    """

    run: Path
    data: Path
    partition: Path
    truth: Path | None = None
    beside: Mapping[str, Path] = field(default_factory=dict)
    yardsticks: Path | None = None

    def beside_partition(self, role: str) -> Path:
        """Folder of the partition of the dataset that has ``role``; it lies next to that dataset's data."""
        return self.beside[role].parent / "partition"


def beside(text: str) -> tuple[str, Path]:
    """Role and folder from ``role=folder``. InputError where it is something else."""
    role, _, folder = text.partition("=")
    if not role or not folder:
        raise InputError(f"--beside: expected role=folder, found {text!r}")
    return role, Path(folder)
