"""All metrics of a study in one file, for users; no step of the pipeline reads it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from fedloom.evaluation.schema import read_metrics, write_metrics


def collect(files: Iterable[Path], out: Path) -> None:
    """Write the metrics in these files, one below the other, to ``out``."""
    write_metrics(pd.concat([read_metrics(file) for file in files], ignore_index=True), out)
