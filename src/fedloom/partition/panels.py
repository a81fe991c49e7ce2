"""The partition of a panel into clients, parts and windows, with each client's scaler. One client is one node.

Steps are split in time first and windows are cut inside each part, so no window straddles two parts (the protocol of
BasicTS, which published tables follow). Clients share one list of windows: one without an observed target stays and
counts for nothing in loss and metric. Scalers see training rows alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.panels.panel import Panel
from fedloom.data.split import PARTS, Split, first_steps, require_split
from fedloom.errors import InputError
from fedloom.partition.folder import PanelPartition

EVERY_CLIENT = -1


@dataclass(frozen=True)
class PanelPartitionSettings:
    """How a panel becomes a federation's task; ``history`` and ``horizon`` are in steps."""

    history: int = 12
    horizon: int = 12
    split: Split = (0.7, 0.1, 0.2)  # training, validation, test, in time
    reach_back: bool = False  # may the inputs of a window lie in the part before?
    scaler: Literal["client", "global"] = "client"
    missing_in_scaler: bool = False  # count missing readings at their literal value, as some published protocols do
    fill: Literal["mean", "last", "raw"] = "mean"  # what a model sees for a missing input
    two_parts: bool = False  # report errors on validation and test part together too: some papers know no third part

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        for name in ("history", "horizon"):
            if getattr(self, name) < 1:
                raise InputError(f"partition: {name}: expected at least 1 step, found {getattr(self, name)}")
        require_split(self.split, "partition")


def split_steps(steps: int, split: Split) -> dict[str, tuple[int, int]]:
    """Return the half-open step range of each part; validation and test are rounded down, training gets the rest."""
    validation, test = first_steps(steps, split)
    return {"train": (0, validation), "validation": (validation, test), "test": (test, steps)}


def window_starts(part: tuple[int, int], history: int, horizon: int, reach_back: bool) -> NDArray[np.int32]:
    """Return the first input step of every window whose targets lie in ``part``, in time order."""
    first = max(part[0] - history, 0) if reach_back else part[0]
    return np.arange(first, part[1] - history - horizon + 1, dtype=np.int32)


def make_panel_partition(panel: Panel, settings: PanelPartitionSettings) -> PanelPartition:
    """Split ``panel`` in time, cut its windows and measure its scalers.

    Raises InputError when a part is too short for one window or a client has no reading to scale by.
    """
    split = split_steps(len(panel.values), settings.split)
    starts = {p: window_starts(split[p], settings.history, settings.horizon, settings.reach_back) for p in PARTS}
    for part, found in starts.items():
        if not len(found):
            low, high = split[part]
            need = settings.history + settings.horizon
            raise InputError(f"{panel.about['dataset']}: {part} part: expected {need} steps, found {high - low}")
    literal = panel.about["missing_literal"]
    if literal is None and (settings.missing_in_scaler or settings.fill == "raw"):
        name = "missing_in_scaler" if settings.missing_in_scaler else "fill"
        raise InputError(
            f"{panel.about['dataset']}: partition: {name}: expected raw data with a literal for missing readings, "
            "found data that leave them empty"
        )
    listed = [pd.DataFrame({"client": EVERY_CLIENT, "part": part, "start": found}) for part, found in starts.items()]
    windows = pd.concat(listed, ignore_index=True).astype({"client": np.int32})
    scalers = _scalers(panel, split["train"], settings)
    about = dataclasses.asdict(settings) | {
        "dataset": panel.about["dataset"],
        "interval_minutes": panel.about["interval_minutes"],
        "missing_literal": literal,
        "split": {part: list(limits) for part, limits in split.items()},
    }
    counts = {part: np.int32(len(found)) for part, found in starts.items()}
    return PanelPartition(about, scalers.assign(**counts), windows)


def _scalers(panel: Panel, train: tuple[int, int], settings: PanelPartitionSettings) -> pd.DataFrame:
    """Return mean and population standard deviation of the training rows; a constant client is scaled by 1."""
    rows = panel.values.iloc[slice(*train)].astype(np.float64)
    if settings.missing_in_scaler:
        rows = rows.fillna(panel.about["missing_literal"])
    empty = [str(name) for name, count in rows.count().items() if count == 0]
    if empty:
        raise InputError(f"{panel.about['dataset']}: node {empty[0]}: expected readings in training, found none")
    clients = pd.Index(panel.values.columns, name="client", dtype="str")
    if settings.scaler == "global":
        every = rows.to_numpy()
        mean, std = np.full(len(clients), np.nanmean(every)), np.full(len(clients), np.nanstd(every))
    else:
        mean, std = rows.mean().to_numpy(), rows.std(ddof=0).to_numpy()
    return pd.DataFrame({"mean": mean, "std": np.where(std > 0, std, 1.0)}, index=clients)
