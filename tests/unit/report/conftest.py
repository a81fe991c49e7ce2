"""Hand-made runs: folders as training and evaluation leave them, with errors that a test chooses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file

from fedloom.config.checks import check
from fedloom.config.dataset import read_dataset
from fedloom.config.names import read_names
from fedloom.config.study import read_study
from fedloom.evaluation.forecast.blocks import BlockSums
from fedloom.evaluation.forecast.conditions import MASKED, UNMASKED
from fedloom.evaluation.forecast.errors import Scores, metric_rows, null_rows
from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import SELECTIONS, write_metrics
from fedloom.report.registry import drawing
from fedloom.report.shown import Shown

CONFIG = Path(__file__).parents[3] / "config"
NODES = ["a", "b", "c"]
WINDOWS, HORIZON, STEPS_PER_DAY = 120, 12, 6


def shown_by(
    study: str,
    name: str,
    runs: Iterable[Path],
    data: Iterable[Path],
    reference: Path | None = None,
    dealt: Iterable[Path] = (),
    caption: str = "What is shown",
) -> Shown:
    """What the artifact ``name`` shows of hand-made runs, with the names and the settings that config gives."""
    about = read_study(CONFIG / "studies", study)
    folders = {"folders": tuple(runs), "data": tuple(data), "dealt": tuple(dealt)}
    names = read_names(CONFIG / "names.yaml")
    known = {path.stem: read_dataset(path).label for path in (CONFIG / "datasets").glob("*.yaml")}
    labels = {dataset: label for dataset, label in known.items() if label}
    of_study = {"foremost": about.foremost, "names": names, "labels": labels}
    artifact = about.artifacts[name]
    of_artifact = {"also": artifact.also, "notes": artifact.notes, "reference": reference}
    return Shown(study, name, "quick", caption, **folders, **of_study, **of_artifact)


def drawn(shown: Shown) -> Any:
    """The table or figure, as the committed study has it drawn."""
    artifact = read_study(CONFIG / "studies", shown.study).artifacts[shown.name]
    how = drawing(artifact.draw)
    return how.draw(shown, check(how.options, artifact.options, artifact.draw))


def artifacts(study: str, kind: str) -> list[str]:
    """The tables or figures of a study, by name."""
    found = read_study(CONFIG / "studies", study).artifacts
    return sorted(name for name, artifact in found.items() if drawing(artifact.draw).kind == kind)


@dataclass
class Workshop:
    """Makes panels and runs below ``root``; ``runs`` and ``panels`` are the folders made so far."""

    root: Path
    runs: list[Path] = field(default_factory=list)
    panels: list[Path] = field(default_factory=list)

    def panel(self, dataset: str, part: str | None = None, repairs: dict[str, int] | None = None) -> None:
        """Make what a panel says of itself."""
        about = {"dataset": dataset, "part": part, "unit": "mph", "interval_minutes": 5, "missing_literal": 0}
        about |= {"rows": 1000, "nodes": len(NODES), "missing_share": 0.081, "repairs": repairs or {}}
        folder = self.root / "data" / dataset / "panel"
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(json.dumps(about))
        self.panels.append(folder)

    def run(
        self,
        method: str,
        error: float,
        variant: str = "base",
        seed: int = 0,
        dataset: str = "metr-la",
        diverged: str | None = None,
        sent: int = 640,
        nmi: float | None = None,
        protocol: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a run whose every forecast errs by about ``error``; with ``diverged`` the reason why it has none."""
        spec: dict[str, Any] = {"dataset": dataset, "method": method, "variant": variant, "seed": seed}
        spec["protocol"] = {"rounds": 5, **(protocol or {})}
        folder = self.root / "runs" / dataset / method / variant / f"seed{seed}"
        folder.mkdir(parents=True)
        record: dict[str, Any] = {"spec": spec, "verdict": "diverged" if diverged else "finished", "reason": diverged}
        record |= {"rounds": 5, "selected_round": 3, "clients": NODES}
        (folder / "run.json").write_text(json.dumps(record))
        rows, diagnostics = self._judged(error, seed)
        if diverged:
            rows, diagnostics = null_rows(NODES, HORIZON, diverged, [MASKED, UNMASKED]), {}
        if nmi is not None:
            units = ["pooled", "mean"]
            found = pd.DataFrame({"unit": units, "metric": "nmi", "horizon": "all", "condition": "", "value": nmi})
            rows = pd.concat([rows, found.assign(n=3, reason=None)], ignore_index=True)
        both = pd.concat([as_metrics(rows, spec, selection) for selection in SELECTIONS], ignore_index=True)
        write_metrics(both, folder / "metrics.parquet")
        save_file(diagnostics, folder / "diagnostics.safetensors")
        self._log(error, sent).to_parquet(folder / "rounds.parquet")
        timing = {"rounds": [5], "seconds": [12.3], "threads": [1], "peak_megabytes": [456.0]}
        pd.DataFrame(timing).to_parquet(folder / "timing.parquet")
        environment = {"device": "cpu", "device_name": "x86_64", "python": "3.11", "torch": "2.13", "numpy": "2.1"}
        (folder / "environment.json").write_text(json.dumps(environment))
        self.runs.append(folder)

    def show(self, name: str, references: Path | None = None, caption: str = "What is shown") -> Shown:
        """Return all runs made so far as an artifact of the study of Atlas shows them."""
        return shown_by("atlas", name, self.runs, self.panels, references, caption=caption)

    @staticmethod
    def _judged(error: float, seed: int) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
        random = np.random.default_rng(seed)
        truth = torch.full((len(NODES), WINDOWS, HORIZON), 60.0)
        sign = torch.from_numpy(random.choice([-1.0, 1.0], truth.shape)).float()
        noise = torch.from_numpy(random.normal(1, 0.01, truth.shape)).float()
        windows = torch.arange(WINDOWS).expand(len(NODES), -1)
        batch = Forecasts(truth + error * sign * noise, truth, torch.ones_like(truth, dtype=torch.bool), windows)
        scores, blocks = Scores(len(NODES), HORIZON, 0.0), BlockSums(windows, STEPS_PER_DAY)
        scores.add(batch)
        blocks.add(batch)
        sums = {"abs_error": blocks.abs, "sq_error": blocks.sq, "count": blocks.n}
        return metric_rows(scores, NODES), {name: values.numpy() for name, values in sums.items()}

    @staticmethod
    def _log(error: float, sent: int) -> pd.DataFrame:
        log: list[tuple[int, str, str, float]] = []
        for round_ in range(5):
            log += [(round_, node, "bytes_up", float(sent)) for node in NODES]
            log.append((round_, "all", "validation_score", error * (1 + 1 / (1 + round_))))
        return pd.DataFrame(log, columns=["round", "client", "quantity", "value"]).astype({"round": "int32"})


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A place for hand-made runs of METR-LA, with its panel."""
    made = Workshop(tmp_path)
    made.panel("metr-la")
    return made


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Two published values of Table 1."""
    path = tmp_path / "references.csv"
    lines = ["table1,metr-la,atlas,base,,mae,3.30", "table1,metr-la,fedavg,base,,mae,3.91"]
    path.write_text("table,dataset,method,variant,condition,metric,value\n" + "\n".join(lines) + "\n")
    return path
