"""Judges runs on series: hidden stretches filled in, held-out sets without learning from them, core-sets audited."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedloom.data.described import read_about
from fedloom.evaluation.evaluate import Arrays, Judge
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.rows import Row
from fedloom.evaluation.series.audit import audit
from fedloom.evaluation.series.examples import filled, foretold
from fedloom.evaluation.series.foresee import Fill
from fedloom.evaluation.series.model import clients_answer, common_answer, why_no_common_model
from fedloom.evaluation.series.reconstruction import reconstruct, reconstruction_rows
from fedloom.evaluation.series.targets import TARGETS, read_targets
from fedloom.evaluation.series.zeroshot import forecast_rows, imputation_rows, unseen_rows
from fedloom.federation.runs import Run
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows

CORE_SETS = {"core.initial", "core.learned", "core.sent", "core.size"}
"""Buffers of clients that build core-sets, as they were in the judged round."""

TOKENS_AT_ONCE = 2**16


class SeriesJudge(Judge):
    """Asks clients for their own test windows, and the model that they share for held-out sets, where there are any.

    Held-out sets, core-sets and what figures draw are judged by the selected weights alone.
    """

    name = "series"

    def __init__(self, run: Run, folders: Folders) -> None:
        super().__init__(run, folders)
        self.task: SeriesTask = run.task
        self.targets = None
        if TARGETS in folders.beside:
            self.targets = read_targets(folders.beside[TARGETS], self.task.device, self.task.dtype)
        self.domains = read_about(folders.data)["domains"]

    def judge(self, selection: str) -> tuple[list[Row], Arrays]:
        """Return the rows of a selection; of the selected one also examples, and distances of core-sets."""
        weights = self.run.weights(selection)
        predict = clients_answer(self.run, weights)
        rows = reconstruction_rows(reconstruct(self.task, predict, TOKENS_AT_ONCE), self.task.ids)
        if selection == "last":
            return rows, {}
        arrays = filled(self.task, predict[None], self.domains)
        reason = why_no_common_model(self.run)
        if reason is not None:
            rows += blank(self._held_out(_zeros), reason)
        elif self.targets is not None:
            fill = common_answer(self.run, weights)
            rows += self._held_out(fill)
            arrays |= foretold(fill, self.targets.of("forecast"), self.task.length, self.task.patch)
        if weights.keys() >= CORE_SETS:
            core_sets = {name.removeprefix("core."): weights[name] for name in CORE_SETS}
            of_sets, distances = audit(self.task, core_sets)
            rows += of_sets
            arrays |= {f"distance/{kind}": np.ascontiguousarray(values) for kind, values in distances.items()}
        return rows, arrays

    def missing(self, selection: str, reason: str) -> list[Row]:
        """Return the rows that a finished run has, null but for the reference rows."""
        rows = reconstruction_rows(reconstruct(self.task, {None: _zeros}, TOKENS_AT_ONCE), self.task.ids)
        return blank(rows if selection == "last" else rows + self._held_out(_zeros), reason)

    def _held_out(self, fill: Fill) -> list[Row]:
        """Rows of all that is asked about held-out sets without learning from them; none where there are no sets."""
        if self.targets is None:
            return []
        sizes = self.task.length, self.task.patch, TOKENS_AT_ONCE // self.task.tokens
        return [
            *forecast_rows(fill, self.targets.of("forecast"), *sizes),
            *imputation_rows(fill, self.targets.of("imputation"), *sizes),
            *unseen_rows(fill, self.targets.of("forecast"), *sizes),
        ]


def blank(rows: list[Row], reason: str) -> list[Row]:
    """Return the rows with those of the method itself null for ``reason``; reference rows stay."""
    emptied = {"value": float("nan"), "lo": float("nan"), "hi": float("nan"), "n": 0, "reason": reason}
    return [row if "prediction=" in row["condition"] else row | emptied for row in rows]


def _zeros(batch: SeriesWindows, *_: Tensor) -> Tensor:
    """Stands for an answer that there is not, where only the reference rows are kept."""
    return torch.zeros_like(batch.x)
