"""A run's folder back as something to ask: forecasts, simulated plans, series with their gaps filled in."""

from __future__ import annotations

import json
from pathlib import Path

from fedloom.errors import InputError
from fedloom.federation.devices import choose_device
from fedloom.federation.runs import read_run
from fedloom.library.trained import Forecaster, Rebuilder, Trained, WorldModel
from fedloom.methods.registry import make

KINDS = {kind.family: kind for kind in (Forecaster, WorldModel, Rebuilder)}


def load_run(
    folder: Path | str, *, data: Path | str | None = None, partition: Path | str | None = None, device: str = "auto"
) -> Trained:
    """What a run trained: a ``Forecaster``, a ``WorldModel`` or a ``Rebuilder``, by the family of its data.

    ``folder`` is ``{results}/runs/{scale}/{dataset}/{method}/{variant}/seed{n}``. Its data and partition are sought
    where the pipeline puts them, ``{results}/data/{dataset}``, unless they are given.

    Raises InputError where there is no run, where it diverged, or where its data are missing.
    """
    folder = Path(folder).absolute()
    told = folder / "run.json"
    if not told.is_file():
        raise InputError(f"{told}: expected a run, found no such file")
    spec = json.loads(told.read_text(encoding="utf-8"))["spec"]
    kind = KINDS.get(spec["family"])
    if kind is None:
        raise InputError(f"{told}: family: expected one of {', '.join(KINDS)}, found {spec['family']!r}")
    beside = folder.parents[5] / "data" / spec["dataset"] if len(folder.parents) > 5 else folder
    where = Path(data or beside / kind.folder), Path(partition or beside / "partition")
    run = read_run(folder, *where, make, choose_device(device))
    if run.verdict == "diverged":
        raise InputError(f"{told}: expected a finished run, found one that diverged: {run.reason}")
    return kind(run, *where)
