"""SC-FSGL: clients average a codebook, slot by slot, that their causal features read, and keep all else.

Liu et al. 2026 (AAAI). No code of its authors is public, and the text gives neither extractors nor any width, weight or
rate: losses, masks, the codebook and what is averaged are the paper's, the rest is ours. A client is one sensor here:
its spatial extractor is the identity, and its spatial code, a constant, is part of the biases. The contrast is printed
without a minus sign, which would push features away from their own row; it has one here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, below
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask, Windows
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.contrastive import nearer_than
from fedloom.models.layers.recurrent import GRU


class Extractor(nn.Module):
    """F [B, D]: a GRU over readings, each beside a code of its weekday and time of day (GMAN's temporal code)."""

    def __init__(self, task: ForecastTask, width: int, code: int) -> None:
        super().__init__()
        self.slots_per_day = task.slots_per_day
        # A layer on one-hot vectors is a table; each starts as such a layer would.
        bound = (task.slots_per_day + DAYS_PER_WEEK) ** -0.5
        self.time_of_day = nn.Parameter(torch.empty(task.slots_per_day, code).uniform_(-bound, bound))
        self.weekday = nn.Parameter(torch.empty(DAYS_PER_WEEK, code).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(code).uniform_(-bound, bound))
        self.mix = nn.Linear(code, code)
        self.recurrent = GRU(1 + code, width)

    def forward(self, batch: Windows) -> Tensor:
        """The state after the last step."""
        steps_T = torch.arange(1 - batch.x.shape[-1], 1, device=batch.x.device)
        hour_BT, day_BT = batch.clock_at(steps_T, self.slots_per_day)
        code_BTF = self.mix((self.time_of_day[hour_BT] + self.weekday[day_BT] + self.bias).relu())
        return self.recurrent(torch.cat([batch.x[..., None], code_BTF], -1))[:, -1]


def as_buffers(module: nn.Module) -> nn.Module:
    """The module with every parameter turned into a buffer of the same name."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, parameter.detach())
    return module


class CausalForecaster(nn.Module):
    """Extractor now and a round ago, masks, codebook, predictor; ``forward`` gives forecasts [B, H], scaled."""

    def __init__(self, task: ForecastTask, params: ScFsgl.Params) -> None:
        super().__init__()
        width = params.width
        self.extractor = Extractor(task, width, params.code)
        self.previous = as_buffers(Extractor(task, width, params.code))
        self.mask, self.mask_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.codebook = nn.Parameter(torch.randn(params.prototypes, width))
        self.predictor = nn.Linear(2 * width, task.horizon)

    def read(self, batch: Windows, previous: Mapping[str, Tensor] | None = None) -> tuple[Tensor, ...]:
        """Forecasts [B, H], queries q [B, D], and the nearest and second nearest row of the codebook [B, D].

        ``previous`` are the extractor's parameters a round ago; the module's own record of them by default.
        """
        now = self.extractor(batch)
        before = self.previous(batch) if previous is None else functional_call(self.extractor, dict(previous), (batch,))
        causal = self.mask(before).sigmoid()
        f_causal, f_other = (((1 + self.mask_norm(m)) * now).sigmoid() for m in (causal, 1 - causal))
        query_BD = self.query(f_causal)
        weight_BI = (query_BD @ self.codebook.T).softmax(-1)
        nearest = weight_BI.topk(2, dim=-1).indices
        forecast_BH = self.predictor(torch.cat([weight_BI @ self.codebook, f_other], -1))
        return forecast_BH, query_BD, self.codebook[nearest[:, 0]], self.codebook[nearest[:, 1]]

    def forward(self, batch: Windows) -> Tensor:
        return self.read(batch)[0]


def invariance(forecast_BH: Tensor, batch: Windows, slots_per_day: int) -> Tensor:
    """Sum over environments of the squared slope of the absolute error of w times the forecast, at w = 1.

    The environments are the windows of the first and of the second half of the minibatch by time of the week, all a
    window says of when it was. The slope is a mean of sign(forecast - y) forecast over observed targets.
    """
    week = DAYS_PER_WEEK * slots_per_day
    now_B = batch.clock[:, 1] * slots_per_day + batch.clock[:, 0]
    now_B = torch.where(batch.valid > 0, now_B, week)
    rank_B = now_B.argsort(stable=True).argsort(stable=True)
    early_B = (rank_B < batch.valid.sum() / 2).to(forecast_BH.dtype)
    slope_BH = (forecast_BH - batch.y).sign() * forecast_BH
    penalty = forecast_BH.new_zeros(())
    for half_B in (early_B, 1 - early_B):
        counted = batch.mask * half_B[:, None]
        penalty = penalty + ((slope_BH * counted).sum() / counted.sum().clamp(min=1)).square()
    return penalty


class ScFsgl(Method):
    """L = squared error + a contrast of the codebook's rows + a penalty on what varies between environments."""

    name = "sc_fsgl"
    cite = "Liu et al. 2026, SC-FSGL (AAAI)"
    family = "forecast"
    shared = ("codebook",)  # phi x d numbers

    @dataclass(frozen=True)
    class Params:
        """All ours: the paper gives none."""

        lr: float = 1e-3
        width: int = 64  # d
        prototypes: int = 32  # phi, rows of the codebook
        code: int = 16  # of weekday and time of day
        temperature: float = 0.1  # of the contrast
        contrast: float = 0.1  # weight of the contrast
        invariance: float = 0.01  # weight of the penalty

    def client(self, task: ForecastTask) -> nn.Module:
        """Extractors, masks, codebook, predictor."""
        return CausalForecaster(task, self.params)

    def parameters(self, task: ForecastTask, module: nn.Module) -> Tensor:
        """All, the extractor of a round ago too, as forecasts need both."""
        assert isinstance(module, CausalForecaster)
        held = sum(p.numel() for p in (*module.parameters(), *module.previous.buffers()))
        return torch.full((len(task.ids),), held)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step; the extractor of a round ago is the one that the round began with."""
        return (Step(self.loss, Adam(self.params.lr), anchored=True),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """The three terms, and the record of the extractor that this round compares with."""
        previous = below(moment.start, "extractor.")
        forecast_BH, query_BD, nearest_BD, second_BD = model(batch, previous, method="read")
        contrast_B = nearer_than(query_BD, nearest_BD, second_BD, self.params.temperature)
        error = masked_mse(forecast_BH, batch)
        contrast = (contrast_B * batch.valid).sum() / batch.valid.sum().clamp(min=1)
        varying = invariance(forecast_BH, batch, model(method=_slots_per_day))
        loss = error + self.params.contrast * contrast + self.params.invariance * varying
        record = {f"previous.{name}": value for name, value in previous.items()}
        return Outcome(loss, record, {"error": error, "contrast": contrast, "invariance": varying})

    def round_log(self, server: dict[str, Tensor], clients: Clients) -> dict[str, float]:
        """The terms of the loss, means over clients."""
        return {n: float(v.mean()) for n, v in clients.means.items()}


def _slots_per_day(module: CausalForecaster) -> int:
    return module.extractor.slots_per_day
