"""Forecasts of trained weights, streamed over a part's windows in raw units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.method import Method
from fedloom.federation.rounds import EVALUATION_CHUNK, predictor
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.forecast import ForecastTask


@dataclass(frozen=True)
class Forecast:
    """Forecasts of all clients for some windows of a part.

    ``windows`` [B] are window numbers within the part; a client with fewer windows has ``mask_CBH`` False there.
    ``forecast_CBH`` and ``truth_CBH`` are in raw units (truth NaN where missing); ``diagnostics`` are [C, B, ...].
    """

    windows: Tensor
    forecast_CBH: Tensor
    truth_CBH: Tensor
    mask_CBH: Tensor
    diagnostics: Tensors


def forecasts(
    method: Method,
    skeleton: nn.Module,
    weights: Tensors,
    task: ForecastTask,
    part: str = "test",
    chunk: int = EVALUATION_CHUNK,
) -> Iterator[Forecast]:
    """Forecast every window of ``part`` with ``weights`` [C, ...], about ``chunk`` client-windows at a time."""
    predict = predictor(method, skeleton, task, weights)

    def diagnose(tensors: Tensors, batch: tuple) -> Tensors:
        return method.diagnose(Bound(skeleton, tensors), batch)

    for rows, numbers in task.chunks(part, chunk):
        batch = task.batch(part, rows, numbers)
        with torch.no_grad():
            forecast = task.unscale(predict(batch, rows), rows)
            diagnostics = {} if method.couples else torch.vmap(diagnose)(weights, batch)
        truth, observed = task.truth(part, rows, numbers)
        yield Forecast(numbers[0], forecast, truth, observed & (batch.valid > 0)[:, :, None], diagnostics)
