"""Where an evaluation finds a run and what it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folders:
    """``truth`` is None where the data have no artifact of known truth."""

    run: Path
    data: Path
    partition: Path
    truth: Path | None = None
