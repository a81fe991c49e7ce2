"""What every run on a dataset is measured against, computed once for all of them.

Estimated propensities of the log, and what a downstream predictor learns from real and from shuffled sequences: none of
it depends on a method.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fedloom.artifacts import atomic
from fedloom.errors import InputError
from fedloom.evaluation.causal.rows import NUMBER


@dataclass(frozen=True)
class Yardsticks:
    """``rows``: metric rows without a run's identity; ``propensity_NLG`` [n, L, 3]: of off, on and other, test part."""

    rows: list[dict[str, Any]]
    propensity_NLG: NDArray[np.float64]


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
