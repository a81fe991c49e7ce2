"""What forecasts of the test part earn, window by window as they stream by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fedloom.evaluation.forecast.assignments import Assignments
from fedloom.evaluation.forecast.blocks import BlockSums
from fedloom.evaluation.forecast.errors import Scores, metric_rows
from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.evaluation.forecast.truth import BestPossible, Truth
from fedloom.federation.tasks.forecast import ForecastTask

UNASSIGNED = 255


class Judged:
    """Errors, errors by block of time, assignments to prototypes; what the truth says of them, where it is known."""

    def __init__(self, task: ForecastTask, missing_literal: float | None, truth: Truth | None) -> None:
        self.task, self.truth = task, truth
        self.starts_CW = task.starts["test"]
        self.scores = Scores(len(task.ids), task.horizon, missing_literal, task.device)
        self.blocks = BlockSums(self.starts_CW, task.slots_per_day)
        self.best = None if truth is None else BestPossible(truth, task.horizon)
        self.assignment_CW = torch.full_like(self.starts_CW, -1)
        self.weighed = Assignments(task)

    def hear(self, stream: Iterable[Forecasts]) -> Judged:
        """Score forecasts of the test part; batches of any size give the same result."""
        for some in stream:
            self.scores.add(some)
            self.blocks.add(some)
            if self.best is not None:
                starts_CB = self.starts_CW.gather(1, some.window_CB.clamp(min=0))
                self.best.add(some, starts_CB, self.task.history)
            if "weights" in some.diagnostics:
                self.weighed.add(some)
            if "assignment" in some.diagnostics:
                client, place = (some.window_CB >= 0).nonzero(as_tuple=True)
                assigned = some.diagnostics["assignment"][client, place].to(self.assignment_CW.dtype)
                self.assignment_CW[client, some.window_CB[client, place]] = assigned
        return self

    @property
    def assigned(self) -> bool:
        """Whether the method assigns windows to prototypes."""
        return bool((self.assignment_CW >= 0).any())

    def rows(self) -> pd.DataFrame:
        """Return all metric rows."""
        tables = [metric_rows(self.scores, self.task.ids)]
        if self.best is not None:
            tables.append(self.best.rows())
        if self.truth is not None and self.assigned:
            seen = self.starts_CW, self.task.inputs, self.task.history
            tables.append(self.truth.information(self.assignment_CW, *seen))
        return pd.concat(tables, ignore_index=True)

    def diagnostics(self) -> dict[str, NDArray[Any]]:
        """Return error sums by block [C, K] and, where there are prototypes, the assignment [C, W] of each window.

        255 marks a window that a node does not have; ``starts`` [C, W] are the windows' first input steps.
        """
        found = {"abs_error": self.blocks.abs, "sq_error": self.blocks.sq, "count": self.blocks.n}
        if self.assigned:
            found["assignment"] = self.assignment_CW.masked_fill(self.assignment_CW < 0, UNASSIGNED).to(torch.uint8)
            found["starts"] = self.starts_CW.to(torch.int32)
        return {name: np.ascontiguousarray(values.cpu().numpy()) for name, values in found.items()}
