"""What noise on the shared tensors costs after training (Atlas, Sec. 5.5.2, Table 4).

Every draw is judged on the whole test part, so that one bad draw shows. Noise is added once to the weights that are
judged, the same for all clients that share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import get_args

import pandas as pd
import torch

from fedloom.data.panels.panel import read_panel
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.forecast.errors import Scores, metric_rows, null_rows
from fedloom.evaluation.forecast.stream import forecasts
from fedloom.evaluation.rows import as_metrics, narrowed, row
from fedloom.evaluation.schema import write_metrics
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import derive, name_key
from fedloom.federation.runs import Maker, Run, read_run
from fedloom.federation.stack import Tensors
from fedloom.federation.upload_noise import Kind, unit_noise

KINDS: tuple[Kind, ...] = get_args(Kind)
PER = ("entry", "norm")
"""Noise in the units of the tensors' entries, or in units of the norm of the row that it falls on."""

NOTHING_SHARED = "clients share nothing"


@dataclass(frozen=True)
class CodebookNoise:
    """Which noise is drawn: standard deviations, b or steps (by kind), and how often."""

    scales: tuple[float, ...] = (0.05,)  # Sec. 5.5.2
    draws: int = 10  # not in the paper, which may show a single one

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws: expected at least 1, found {self.draws}")
        for scale in self.scales:
            if scale <= 0:
                raise ValueError(f"scales: expected numbers above 0, found {scale}")


@dataclass(frozen=True)
class Draw:
    """One draw of noise."""

    kind: Kind
    scale: float
    per: str
    number: int

    @property
    def condition(self) -> str:
        """The condition of errors under this draw."""
        return narrowed(MASKED, noise=self.kind, scale=self.scale, per=self.per, draw=self.number)


def disturb(folders: Folders, out: Path, make: Maker, settings: CodebookNoise, device: torch.device) -> None:
    """Write ``noisy.parquet`` of the run in ``folders`` to ``out``, in the schema of a run's metrics.

    A diverged run and a method whose clients share nothing get null rows with the reason.
    """
    run = read_run(folders.run, folders.data, folders.partition, make, device)
    literal = read_panel(folders.data).about["missing_literal"]
    write_metrics(as_metrics(noisy_rows(run, settings, literal), run.spec, "selected"), out / "noisy.parquet")


def noisy_rows(run: Run, settings: CodebookNoise, missing_literal: float | None) -> pd.DataFrame:
    """Return errors under every draw, pooled and as means over nodes, and the mean norm of the rows that it falls on.

    Conditions: ``noise`` (kind), ``scale``, ``per`` (see ``PER``), ``draw``. Of a run whose uploads were disturbed
    while it learned there is the norm alone: it shows by itself what noise costs.
    """
    weights = {} if run.verdict == "diverged" else run.weights("selected")
    shared = run.method.travelling(weights)
    if not shared:
        reason = str(run.reason) if run.verdict == "diverged" else NOTHING_SHARED
        return _common(null_rows([], run.task.horizon, reason, [draw.condition for draw in _draws(settings)]))
    norms = torch.cat([weights[name][0].norm(dim=-1).flatten() for name in shared])
    tables = [pd.DataFrame([row("row_norm", float(norms.mean()), len(norms))])]
    undisturbed = Protocol(**run.spec["protocol"]).noise is None
    for draw in _draws(settings) if undisturbed else ():
        disturbed = weights | noise_on({name: weights[name] for name in shared}, draw, run.spec["seed"])
        scores = Scores(len(run.task.ids), run.task.horizon, missing_literal, run.task.device)
        for some in forecasts(run, disturbed, run.task, "test"):
            scores.add(some)
        found = metric_rows(scores, run.task.ids)
        tables.append(_common(found[found["condition"] == MASKED]).assign(condition=draw.condition))
    return pd.concat(tables, ignore_index=True)


def noise_on(tensors: Tensors, draw: Draw, seed: int) -> Tensors:
    """Return ``tensors`` [C, ...] with the draw's noise on them: the same for all clients, different for every name."""
    disturbed = {}
    for name, value in tensors.items():
        same = value.stride(0) == 0
        rows = value[:1] if same else value
        keys = derive(torch.tensor([name_key(name)], device=value.device), seed, "noise", draw.kind, draw.number)
        noise = draw.scale * unit_noise(draw.kind, keys, tuple(value.shape[1:]), value.dtype)
        noise = noise * rows.norm(dim=-1, keepdim=True) if draw.per == "norm" else noise
        disturbed[name] = (rows + noise).expand(value.shape)
    return disturbed


def _draws(settings: CodebookNoise) -> Iterator[Draw]:
    for kind, scale, per, number in product(KINDS, settings.scales, PER, range(settings.draws)):
        yield Draw(kind, scale, per, number)


def _common(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["unit"].isin(["pooled", "mean"])]
