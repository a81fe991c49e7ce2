"""Leakage of the simulation behind Proposition 1 on a panel's own readings and on Gaussian data, as metric rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedloom.data.panels.panel import Panel, read_panel
from fedloom.errors import InputError
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.proposition import (
    Client,
    Confounding,
    Floats,
    correlations,
    gaussian_clients,
    simulate,
)
from fedloom.evaluation.rows import Row, as_metrics, condition, row
from fedloom.evaluation.schema import write_metrics
from fedloom.partition.folder import PanelPartition, read_partition
from fedloom.partition.panels import EVERY_CLIENT

PANEL, GAUSSIAN = "panel", "gaussian"
LEAST_WINDOWS = 100  # of a node, for its second moments to mean anything


def confound(folders: Folders, out: Path, settings: Confounding) -> None:
    """Write ``leakage.parquet`` to ``out``: the simulation on the panel in ``folders``, seeded by the run there.

    Raises InputError where fewer than two nodes have enough training windows without a missing reading.
    """
    spec = json.loads((folders.run / "run.json").read_text(encoding="utf-8"))["spec"]
    panel, partition = read_panel(folders.data), read_partition(PanelPartition, folders.partition)
    rows = leakage_rows(panel, partition, settings, spec["seed"])
    write_metrics(as_metrics(rows, spec, "selected"), out / "leakage.parquet")


def leakage_rows(panel: Panel, partition: PanelPartition, settings: Confounding, seed: int) -> list[Row]:
    """Return ``leakage`` and, by trial, the mean ``correlation`` of x and y over clients with least and largest.

    Conditions of leakage: ``data`` (panel, or gaussian with its ``correlation``), ``line``, ``mean`` and ``spread`` of
    confounding, ``scale`` of x and y, ``trial``. ``n`` counts clients.
    """
    rows: list[Row] = []
    for trial in range(settings.trials):
        nodes = panel_clients(panel, partition, settings, np.random.default_rng((seed, trial)))
        found = correlations(nodes)
        under = condition(data=PANEL, trial=trial)
        rows.append(row("correlation", found.mean(), len(nodes), under, lo=found.min(), hi=found.max()))
        rows += _of(nodes, settings, (seed, trial), {"data": PANEL})
        for correlation in settings.correlations:
            drawn = gaussian_clients(settings, correlation, (seed, trial))
            rows += _of(drawn, settings, (seed, trial), {"data": GAUSSIAN, "correlation": correlation})
    return rows


def _of(clients: list[Client], settings: Confounding, seed: tuple[int, int], data: dict[str, object]) -> Iterator[Row]:
    for scale in settings.scales:
        for line, values in simulate(clients, settings, scale, seed)._asdict().items():
            for (mean, spread), value in zip(settings.points, values, strict=True):
                under = condition(**data, line=line, mean=mean, spread=spread, scale=scale, trial=seed[1])
                yield row("leakage", value, len(clients), under)


def panel_clients(
    panel: Panel, partition: PanelPartition, settings: Confounding, random: np.random.Generator
) -> list[Client]:
    """Draw nodes and, of each, training windows without a missing reading: the means of inputs and of targets.

    Both are standardised at each client. An even number of clients, as many as are asked for or there are.
    """
    history, horizon = partition.about["history"], partition.about["horizon"]
    windows = partition.windows[partition.windows["part"] == "train"]
    values = panel.values.to_numpy(dtype=np.float64)
    clients: list[Client] = []
    for node in random.permutation(values.shape[1]):
        if len(clients) == 2 * (settings.clients // 2):
            break
        starts = windows.loc[windows["client"].isin([EVERY_CLIENT, node]), "start"].to_numpy(dtype=np.int64)
        x, y = _window_means(values[:, node], starts, history, horizon)
        whole = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(whole) >= LEAST_WINDOWS:
            drawn = random.permutation(whole)[: settings.samples]
            clients.append(Client(_standard(x[drawn]), _standard(y[drawn])))
    if len(clients) < 2:
        name = panel.about["dataset"]
        expected = f"two nodes with {LEAST_WINDOWS} training windows without a missing reading"
        raise InputError(f"{name}: values: expected {expected}, found {len(clients)}")
    return clients[: 2 * (len(clients) // 2)]


def _window_means(values_S: Floats, starts: NDArray[np.int64], history: int, horizon: int) -> tuple[Floats, Floats]:
    """Means of the inputs and of the targets of windows; NaN where a reading is missing."""
    inputs = starts[:, None] + np.arange(history)
    targets = starts[:, None] + history + np.arange(horizon)
    return values_S[inputs].mean(1), values_S[targets].mean(1)


def _standard(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))
