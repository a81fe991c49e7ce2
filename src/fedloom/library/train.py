"""Train a federation on a panel by the same code, and into the same folders, as the pipeline."""

from __future__ import annotations

import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedloom.config.digest import code_digest
from fedloom.data.panels.panel import Panel, write_panel
from fedloom.errors import InputError
from fedloom.federation.devices import choose_device
from fedloom.federation.protocol import Protocol
from fedloom.federation.runs import train_run
from fedloom.library.load import load_run
from fedloom.library.panels import named
from fedloom.library.trained import Trained
from fedloom.methods import registry as methods
from fedloom.models import registry as models
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition

FAMILY, MODEL = "forecast", "forecaster"
Progress = Callable[[int, int, str], None]


def train(
    panel: Panel,
    method: str,
    *,
    params: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    partition: PanelPartitionSettings | None = None,
    seed: int = 0,
    device: str = "auto",
    out: Path | str | None = None,
    progress: Progress = lambda done, total, text: None,
) -> Trained:
    """Train ``method`` on ``panel``, one client a sensor, and give back what was trained.

    ``params`` are the method's, ``model`` those of the forecaster that methods without a network of their own train,
    ``protocol`` those of ``fedloom.federation.protocol.Protocol``; what they leave out has its default there. ``out``
    is a folder like a pipeline's ``results``; the run can be loaded from it again, and goes on from there after an
    interruption. Without it the run lies in a temporary folder.

    Raises InputError for an unknown method, parameter or value, or a panel too short for one window a part.
    """
    if not isinstance(panel, Panel):
        raise InputError(f"panel: expected what load_panel gives, found a {named(panel)}")
    root = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="fedloom-"))
    spec = _spec(panel, method, params or {}, model or {}, protocol or {}, seed)
    name = spec["dataset"]
    data, parts = root / "data" / name / "panel", root / "data" / name / "partition"
    write_panel(panel, data)
    write_partition(make_panel_partition(panel, partition or PanelPartitionSettings()), parts)
    place = Path("library", name, method, spec["variant"], f"seed{seed}")
    kinds = [methods.get(method), *([models.get(MODEL)] if spec["model"] else [])]
    train_run(
        spec, code_digest(Path(inspect.getfile(train_run)), kinds), methods.make, data, parts,
        root / "runs" / place, root / "state" / place, choose_device(device), progress,
    )  # fmt: skip
    return load_run(root / "runs" / place, device=device)


def _spec(
    panel: Panel,
    method: str,
    params: Mapping[str, Any],
    model: Mapping[str, Any],
    protocol: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    """The run's spec with every default written out, as the pipeline has it."""
    kind = methods.get(method)
    if kind.family not in (None, FAMILY):
        raise InputError(f"method: expected one that forecasts, found {method} (family {kind.family})")
    if model and not kind.takes_model:
        raise InputError(f"model: {method} has a network of its own and takes none, found {next(iter(model))!r}")
    network = {"name": MODEL, "params": _whole(models.get(MODEL).Params, model, "model")} if kind.takes_model else None
    return {
        "dataset": str(panel.about["dataset"]),
        "family": FAMILY,
        "method": method,
        "variant": "base",
        "seed": seed,
        "params": _whole(kind.Params, params, f"params of {method}"),
        "model": network,
        "protocol": _whole(Protocol, protocol, "protocol"),
    }


def _whole(kind: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    try:
        return dict(sorted(dataclasses.asdict(methods.parameters(kind, dict(values), where)).items()))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from None
