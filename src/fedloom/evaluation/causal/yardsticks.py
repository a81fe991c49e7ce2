"""What every run on a dataset is measured against, computed once for all of them.

Estimated propensities of the log, and what a downstream predictor learns from real and from shuffled sequences: none of
it depends on a method.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fedloom.artifacts import atomic
from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.causal.propensity import estimate_propensities
from fedloom.evaluation.causal.utility import reference_rows
from fedloom.evaluation.rows import NUMBER, Row
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.trajectory import TrajectoryTask


@dataclass(frozen=True)
class Yardsticks:
    """``rows``: metric rows without a run's identity; ``propensity_NLG`` [n, L, 3]: of off, on and other, test part."""

    rows: list[Row]
    propensity_NLG: NDArray[np.float64]


def make_yardsticks(data: Path, partition: Path, seed: int) -> Yardsticks:
    """Return those of the trajectories in ``data``; predictors learn from real sequences by ``seed``."""
    task = TrajectoryTask.read(data, partition, Protocol(), torch.device("cpu"))
    known = read_trajectories(data)
    train, validation, test = (Part.of(task, known, part) for part in ("train", "validation", "test"))
    estimated = estimate_propensities(train.history(), validation.history(), test.history(), len(task.ids))
    rows = reference_rows(train.sequences(), test.sequences(), task.actions, task.ids, seed)
    return Yardsticks(rows, np.nan_to_num(estimated, nan=1.0))


def write_yardsticks(found: Yardsticks, folder: Path) -> None:
    """Write ``rows.parquet`` and ``propensity.safetensors`` to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / "rows.parquet") as temporary:
        pd.DataFrame(found.rows, columns=NUMBER).to_parquet(temporary, index=False)
    with atomic(folder / "propensity.safetensors") as temporary:
        save_file({"propensity": np.ascontiguousarray(found.propensity_NLG)}, temporary)


def read_yardsticks(folder: Path) -> Yardsticks:
    """Read what ``write_yardsticks`` wrote. Raises InputError where it is not there."""
    for name in ("rows.parquet", "propensity.safetensors"):
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: expected the yardsticks of a dataset, found no such file")
    rows = pd.read_parquet(folder / "rows.parquet").to_dict("records")
    return Yardsticks(rows, load_file(folder / "propensity.safetensors")["propensity"])
