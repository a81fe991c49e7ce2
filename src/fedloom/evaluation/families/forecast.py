"""Judges runs on panels: errors of the test part, and of all held-out data together where a paper has no third part."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.panels.panel import read_panel
from fedloom.evaluation.evaluate import Arrays, Judge
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.conditions import HELD_OUT, MASKED, UNMASKED
from fedloom.evaluation.forecast.errors import held_out_rows, null_rows
from fedloom.evaluation.forecast.judged import Judged
from fedloom.evaluation.forecast.prototypes import prototype_rows
from fedloom.evaluation.forecast.stream import forecasts
from fedloom.evaluation.forecast.truth import read_truth
from fedloom.federation.runs import Run, read_task
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.partition.folder import read_partition_about


class ForecastJudge(Judge):
    """Errors by node, block of time and horizon; the truth behind generated readings beside them."""

    name = "forecast"

    def __init__(self, run: Run, folders: Folders) -> None:
        super().__init__(run, folders)
        self.task: ForecastTask = run.task
        panel = read_panel(folders.data)
        self.missing_literal = panel.about["missing_literal"]
        self.truth = read_truth(panel, self.task.ids)
        self.two_parts = read_partition_about(folders.partition).get("two_parts", False)

    def judge(self, selection: str) -> tuple[pd.DataFrame, Arrays]:
        """Return the rows of a selection; of the selected one also the errors by block, assignments and edges."""
        weights = self.run.weights(selection)
        judged = Judged(self.task, self.missing_literal, self.truth)
        judged.hear(forecasts(self.run, weights, self.task, "test"))
        rows = judged.rows()
        if self.two_parts:
            # What the validation part adds to the errors of the test part.
            for some in forecasts(self.run, weights, self._whole(), "validation"):
                judged.scores.add(some)
            rows = pd.concat([rows, held_out_rows(judged.scores, self.task.ids)], ignore_index=True)
        of_prototypes = judged.weighed.arrays(weights["codebook"]) if judged.weighed.kept else {}
        if of_prototypes:
            readings_CS, starts_CW = (of.cpu().numpy() for of in (self.task.raw, self.task.starts["test"]))
            ends_CW = np.where(starts_CW < 0, -1, starts_CW + self.task.history - 1)
            used = prototype_rows(of_prototypes, self.task.ids, readings_CS, ends_CW)
            rows = pd.concat([rows, pd.DataFrame(used)], ignore_index=True)
        if selection != "selected":
            return rows, {}
        return rows, judged.diagnostics() | of_prototypes | self._edges()

    def missing(self, selection: str, reason: str) -> pd.DataFrame:
        """Return the rows of errors, each null."""
        conditions = [MASKED, UNMASKED, *([HELD_OUT] if self.two_parts else [])]
        return null_rows(self.task.ids, self.task.horizon, reason, conditions)

    def _edges(self) -> Arrays:
        """Edges [2, E] (places of senders, of receivers) along which clients of a coupled method exchanged."""
        method = self.run.method
        if not method.couples or method.central:
            return {}
        return {"edges": np.ascontiguousarray(method.edges(self.task).cpu().numpy().astype(np.int32))}

    def _whole(self) -> ForecastTask:
        """The task with every window of the validation part, of which the run's own may hold only some."""
        where = self.folders.data, self.folders.partition, self.task.device
        whole: ForecastTask = read_task(self.run.spec, *where, validation_stride=1)
        return whole
