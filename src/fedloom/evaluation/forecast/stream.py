"""Forecasts of trained weights, streamed over a part's windows in raw units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.federation.rounds import EVALUATION_CHUNK, predictor
from fedloom.federation.runs import Run
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.forecast import ForecastTask


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of C nodes for B windows: ``forecast_CBH``, ``truth_CBH`` (NaN where missing), both in raw units.

    ``mask_CBH`` is true where a reading was observed; ``window_CB`` numbers a node's windows within the part, -1 where
    a row stands for no window of that node. ``diagnostics`` [C, B, ...] are what the method says of a window.
    """

    forecast_CBH: Tensor
    truth_CBH: Tensor
    mask_CBH: Tensor
    window_CB: Tensor
    diagnostics: Tensors = field(default_factory=dict)


def forecasts(
    run: Run, weights: Tensors, task: ForecastTask, part: str, chunk: int = EVALUATION_CHUNK
) -> Iterator[Forecasts]:
    """Forecast every window of a part of ``task`` with ``weights`` [C, ...], about ``chunk`` of all clients at once."""
    method = run.method
    predict = predictor(method, run.skeleton, task, weights)

    def diagnose(tensors: Tensors, batch: tuple) -> Tensors:
        return method.diagnose(Bound(run.skeleton, tensors), batch)

    for rows, numbers in task.chunks(part, chunk):
        batch = task.batch(part, rows, numbers)
        with torch.no_grad():
            forecast = task.unscale(predict(batch, rows), rows)
            diagnostics = {} if method.couples else torch.vmap(diagnose)(weights, batch)
        truth, observed = task.truth(part, rows, numbers)
        real = batch.valid > 0
        yield Forecasts(forecast, truth, observed & real[:, :, None], numbers.where(real, -1), diagnostics)
