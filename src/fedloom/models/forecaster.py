"""Atlas' encoder and decoder without its codebook: the forecaster that the general federated methods train.

Encoder (Atlas, Sec. 4.4): a window-level convolution over the history, tables for time of day and weekday, residual
point-wise blocks. Decoder: one affine map to the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from fedloom.federation.method import ClientModel, Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask, Windows

Size = Literal["wide", "compact"]


class EncoderShape(NamedTuple):
    """Widths of an encoder: window code, each calendar table, residual blocks."""

    code: int
    table: int
    block: int


def encoder_shape(size: Size, width: int) -> EncoderShape:
    """``wide``: STID's published sizes, twice the output width inside. ``compact``: the output width throughout."""
    if size == "wide":
        return EncoderShape(code=width, table=width // 2, block=2 * width)
    if size == "compact":
        return EncoderShape(code=width // 2, table=width // 4, block=width)
    raise ValueError(f"encoder: expected wide or compact, found {size!r}")


class ResidualBlock(nn.Module):
    """h + W2 relu(W1 h): a residual MLP of two point-wise convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, h_BD: Tensor) -> Tensor:
        return h_BD + self.outer(torch.relu(self.inner(h_BD)))


class Encoder(nn.Module):
    """Windows to codes z [B, D]. A convolution over the whole window equals an affine map of its T readings."""

    def __init__(self, task: ForecastTask, size: Size, width: int, depth: int) -> None:
        super().__init__()
        shape = encoder_shape(size, width)
        self.window = nn.Linear(task.history, shape.code)
        self.time_of_day = nn.Parameter(nn.init.xavier_uniform_(torch.empty(task.slots_per_day, shape.table)))
        self.weekday = nn.Parameter(nn.init.xavier_uniform_(torch.empty(DAYS_PER_WEEK, shape.table)))
        self.blocks = nn.Sequential(*(ResidualBlock(shape.block) for _ in range(depth)))
        self.project = nn.Identity() if shape.block == width else nn.Linear(shape.block, width)

    def forward(self, batch: Windows) -> Tensor:
        calendar = [self.time_of_day[batch.clock[..., 0]], self.weekday[batch.clock[..., 1]]]
        return self.project(self.blocks(torch.cat([self.window(batch.x), *calendar], dim=-1)))


def masked_mse(forecast_BH: Tensor, batch: Windows) -> Tensor:
    """Mean squared error over observed targets, in scaled units; 0 where nothing was observed (Atlas, Eq. 10)."""
    squared = (forecast_BH - batch.y).square() * batch.mask
    return squared.sum() / batch.mask.sum().clamp(min=1)


class PlainForecaster(nn.Module):
    """Encoder and decoder of one client: windows to forecasts [B, H], scaled."""

    def __init__(self, task: ForecastTask, size: Size, width: int, depth: int) -> None:
        super().__init__()
        self.encoder = Encoder(task, size, width, depth)
        self.decoder = nn.Linear(width, task.horizon)

    def forward(self, batch: Windows) -> Tensor:
        return self.decoder(self.encoder(batch))


class Forecaster(ClientModel):
    """The forecaster as a client model; its head is the decoder."""

    name = "forecaster"
    family = "forecast"
    head = ("decoder",)

    @dataclass(frozen=True)
    class Params:
        encoder: Size = "wide"  # Atlas prints no width; STID's published size
        width: int = 64  # D, Sec. 5.1
        depth: int = 3  # residual blocks, Sec. 5.1

    def build(self, task: ForecastTask) -> nn.Module:
        """One client's encoder and decoder."""
        return PlainForecaster(task, self.params.encoder, self.params.width, self.params.depth)

    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """One Adam step (Atlas, Sec. 5.1)."""
        return (Step(self.loss, Adam(lr)),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Masked squared error of one client's minibatch."""
        return Outcome(masked_mse(model(batch), batch))
