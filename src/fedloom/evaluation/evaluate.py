"""From a run's folder to its metric rows: read the run, let its family judge it, write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fedloom.artifacts import atomic
from fedloom.evaluation.families import registry as families
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.rows import Rows, as_metrics
from fedloom.evaluation.schema import SELECTIONS, write_metrics
from fedloom.federation.runs import Maker, Run, read_run

Arrays = dict[str, NDArray[Any]]


class Judge(ABC):
    """Judges the weights of one run; ``families/{name}.py`` holds the judge of a family of tasks.

    A subclass reads what its rows need, once for all weights of the run; the run may have diverged.
    """

    name: ClassVar[str]

    def __init__(self, run: Run, folders: Folders) -> None:
        self.run, self.folders = run, folders

    @abstractmethod
    def judge(self, selection: str) -> tuple[Rows, Arrays]:
        """Return the rows of the weights of a selection, and what figures draw of the selected ones, by name."""

    @abstractmethod
    def missing(self, selection: str, reason: str) -> Rows:
        """Return the rows of a run that diverged, null for ``reason``."""


def evaluate(folders: Folders, out: Path, make: Maker, device: torch.device) -> None:
    """Write ``metrics.parquet`` and ``diagnostics.safetensors`` of the run in ``folders`` to ``out``.

    A run that diverged gets null rows with its reason, and no diagnostics. Raises InputError for a missing or broken
    artifact.
    """
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    judge: Judge = families.get(run.spec["family"])(run, folders)
    tables, diagnostics = [], Arrays()
    for selection in SELECTIONS:
        if run.verdict == "diverged":
            rows = judge.missing(selection, str(run.reason))
        else:
            rows, arrays = judge.judge(selection)
            diagnostics |= arrays
        tables.append(as_metrics(rows, run.spec, selection))
    write_metrics(pd.concat(tables, ignore_index=True), out / "metrics.parquet")
    with atomic(out / "diagnostics.safetensors") as temporary:
        save_file(diagnostics, temporary)
