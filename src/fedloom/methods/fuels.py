"""FUELS: clients share no weights, only the mean of their codes, and learn by contrast with each other's.

"Personalized Federated Learning for Spatio-Temporal Forecasting: A Dual Semantic Alignment-Based Contrastive Approach".
No code of its authors is public: the structure is the paper's, the constants are a third party's or ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.special import xlogy

from fedloom.errors import InputError
from fedloom.federation.method import Clients, Method, Moment, Noise, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.contrastive import gated_info_nce, nearer_than
from fedloom.models.layers.recurrent import GRU

Tensors = dict[str, Tensor]

FORECASTS = ("recent", "periodic", "decoder")  # parts that a forecast takes; the rest helps while training


class TwoViewForecaster(nn.Module):
    """Codes r = [recent, periodic] [B, D] and their decoder; ``forward`` gives forecasts [B, H], scaled.

    ``gate`` is the filter W of a minibatch's pairs, ``positive`` and ``negative`` what the server made of all codes.
    """

    positive: Tensor
    negative: Tensor

    def __init__(self, task: ForecastTask, width: int, side: int) -> None:
        super().__init__()
        self.recent, self.periodic = GRU(1, width // 2), GRU(1, width // 2)
        self.decoder = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, task.horizon))
        if side:
            self.gate = nn.Parameter(nn.init.xavier_uniform_(torch.empty(side, side)))
        self.register_buffer("positive", torch.zeros(width))
        self.register_buffer("negative", torch.zeros(width))

    def code(self, x_BT: Tensor) -> Tensor:
        """Codes r [B, D] of windows: all their steps, and every other one up to the last."""
        x_BT1 = x_BT[..., None]
        sparse = x_BT1[:, (x_BT.shape[1] - 1) % 2 :: 2]
        return torch.cat([self.recent(x_BT1)[:, -1], self.periodic(sparse)[:, -1]], -1)

    def read(self, batch: Windows) -> tuple[Tensor, Tensor]:
        """Forecasts [B, H] and codes [B, D]."""
        r_BD = self.code(batch.x)
        return self.decoder(r_BD), r_BD

    def forward(self, batch: Windows) -> Tensor:
        return self.read(batch)[0]


def divergence(prototypes_CD: Tensor) -> Tensor:
    """Jensen-Shannon divergence [C, C], in nats, of every two prototypes as distributions (their softmax)."""
    p_CD = prototypes_CD.softmax(-1)
    middle_CCD = (p_CD[:, None] + p_CD[None]) / 2
    entropy = lambda q: -xlogy(q, q).sum(-1)  # noqa: E731
    own_C = entropy(p_CD)
    return (entropy(middle_CCD) - (own_C[:, None] + own_C[None]) / 2).fill_diagonal_(0)


def alike_and_others(prototypes_CD: Tensor) -> tuple[Tensor, Tensor]:
    """Means [C, D] of the prototypes that resemble each client's, its own included, and of all others (0 if none).

    Two resemble each other up to the median of all positive divergences.
    """
    apart_CC = divergence(prototypes_CD.double())
    positive = apart_CC[apart_CC > 0]
    limit = positive.median() if len(positive) else apart_CC.new_zeros(())
    alike_CC = (apart_CC <= limit).to(prototypes_CD.dtype)
    means = [(who @ prototypes_CD) / who.sum(-1, keepdim=True).clamp(min=1) for who in (alike_CC, 1 - alike_CC)]
    return means[0], means[1]


class Fuels(Method):
    """L = squared error + contrast within the minibatch + rho times contrast with the other clients' codes."""

    name = "fuels"
    cite = "Liu et al. 2025, Personalized Federated Learning for Spatio-Temporal Forecasting (FUELS, AAAI)"
    family = "forecast"
    only_averages = False

    @dataclass(frozen=True)
    class Params:
        """Third-party settings where there are any."""

        lr: float = 1e-3  # Adam, third party
        width: int = 64  # of a code; Atlas: FUELS sends 64 numbers
        inter: float = 5.0  # rho, third party
        temperature: float = 0.02  # third party
        jitter: float = 0.01  # of an augmented window, in its client's deviations, third party
        zeroed: float = 0.1  # share of its steps set to 0, third party
        shifted: float = 0.5  # how often it starts one step earlier, third party
        gate: Literal["learned", "none"] = "learned"  # W, whose places mean nothing where minibatches are shuffled
        side: int = 256  # of W: the largest minibatch

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: ForecastTask) -> nn.Module:
        """Two recurrent views, decoder, filter."""
        return TwoViewForecaster(task, self.params.width, self.params.side if self.params.gate == "learned" else 0)

    def parameters(self, task: ForecastTask, module: nn.Module) -> Tensor:
        """All but the filter, which forecasts do not use."""
        whole: Tensors = dict(module.named_parameters())
        return torch.full((len(task.ids),), sum(int(whole[n].numel()) for n in matching(whole, FORECASTS)))

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Training, then the mean code of the trained weights; there is nothing to contrast with in round 0."""
        return (Phase(download=round_ > 0, upload=False), Phase("prototype", epochs=1, download=False))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step a minibatch; the look back changes nothing."""
        if phase.name == "prototype":
            return (Step(self.prototype, None, name="prototype"),)
        noise = {"jitter": Noise(("history",)), "zeroed": Noise(("history",), "uniform"), "shift": Noise((), "uniform")}
        loss = partial(self.loss, contrasted=phase.round > 0)
        return (Step(loss, Adam(self.params.lr), noise=noise),)

    def loss(self, model: Bound, batch: Windows, moment: Moment, contrasted: bool) -> Outcome:
        """The three terms; the last one from the second round on."""
        forecast_BH, r_BD = model(batch, method="read")
        other_BD = model(self.augmented(batch.x, moment.noise), method="code")
        temperature, valid_B = self.params.temperature, batch.valid
        error = masked_mse(forecast_BH, batch)
        within = gated_info_nce(r_BD, other_BD, temperature, self._gate(model, len(valid_B)), valid_B)
        loss, means = error + within, {"error": error, "within": within}
        if contrasted:
            between_B = nearer_than(r_BD, model["positive"], model["negative"], temperature)
            between = (between_B * valid_B).sum() / valid_B.sum().clamp(min=1)
            loss, means = loss + self.params.inter * between, means | {"between": between}
        return Outcome(loss, means=means)

    def _gate(self, model: Bound, samples: int) -> Tensor | None:
        if self.params.gate == "none":
            return None
        if samples > self.params.side:
            raise InputError(f"fuels: batch: expected at most side = {self.params.side} windows, found {samples}")
        return model["gate"][:samples, :samples]

    def augmented(self, x_BT: Tensor, noise: Tensors) -> Tensor:
        """Another view of windows: jittered, some steps set to 0, some windows a step late."""
        changed = (x_BT + self.params.jitter * noise["jitter"]) * (noise["zeroed"] >= self.params.zeroed)
        late = torch.cat([changed[:, :1], changed[:, :-1]], 1)
        return torch.where((noise["shift"] < self.params.shifted)[:, None], late, changed)

    def prototype(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """The mean code of the minibatch's windows."""
        r_BD = model(batch.x, method="code")
        mean_D = (r_BD * batch.valid[:, None]).sum(0) / batch.valid.sum().clamp(min=1)
        return Outcome(mean_D.new_zeros(()), means={"prototype": mean_D})

    # -- what is shared: D numbers up, 2 D down --------------------------------------------------------------------

    def upload(self, clients: Clients) -> Tensors:
        """A client's mean code over its training windows."""
        return {"prototype": clients.means["prototype"].to(clients.buffers["positive"].dtype)}

    def server(self, task: ForecastTask, start: Tensors) -> Tensors:
        """What each client is contrasted with [C, D], none as yet."""
        return {n: start[n].expand(len(task.ids), -1).clone() for n in ("positive", "negative")}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """For each client that sent its prototype the mean of those like it, and of the others."""
        made = zip(("positive", "negative"), alike_and_others(uploads["prototype"]), strict=True)
        return {n: server[n].index_copy(0, uploads.positions, mean_CD) for n, mean_CD in made}

    def download(self, server: Tensors, clients: Clients) -> Tensors:
        """Each client's own two means."""
        return {n: server[n][clients.positions] for n in ("positive", "negative")}

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """What a forecast takes, each client's own."""
        return {n: clients.params[n] for n in matching(clients.params, FORECASTS)}

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """The terms of the loss, and how much of a negative the filter lets pass."""
        log = {n: float(v.mean()) for n, v in clients.means.items() if n != "prototype"}
        if log and "gate" in clients.params:
            log["gate"] = float(clients.params["gate"].sigmoid().mean())
        return log
