"""FFTS: a federated foundation model of time series whose layers carry experts of trend (Chen et al. 2025).

Its published code does not run and couples the windows of a batch in its gate; these are its blocks on the backbone and
masks that all methods here share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from fedloom.federation.method import Loss, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.stack import Bound, Tensors, matching
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows
from fedloom.models.layers.domain_bias import averaging, trend_width
from fedloom.models.patch_transformer import PatchTransformer, PatchTransformerModel

STARTS = (0.1, 0.3, 0.5, 1.0)  # first scale of each expert ("second, minute, hour, day"); published code
CHOSEN = 2  # experts a token uses
GROWTH = 0.10  # of the backbone's parameters that all modules together add: 118.94 to 108.41 MB, FeDaL, Table 1


class AdaptiveTrend(nn.Module):
    """h + the experts that each token's trend and season choose, on codes [B, n, D].

    Experts are D -> ``hidden`` -> D, all stacked: their weights have a leading axis of experts.
    """

    average: Tensor

    def __init__(self, width: int, tokens: int, hidden: int) -> None:
        super().__init__()
        count, half = len(STARTS), width // 2
        self.norm = nn.LayerNorm(width)
        self.trend, self.season = nn.Linear(width, half), nn.Linear(width, half)
        self.trend_norm, self.season_norm = nn.LayerNorm(half), nn.LayerNorm(half)
        self.gate = nn.Linear(half, count)
        bound = width**-0.5
        self.inner = nn.Parameter(torch.empty(count, width, hidden).uniform_(-bound, bound))
        self.outer = nn.Parameter(torch.empty(count, hidden, width).uniform_(-bound, bound))
        self.inner_bias, self.outer_bias = (nn.Parameter(torch.zeros(count, size)) for size in (hidden, width))
        self.scale = nn.Parameter(torch.tensor(STARTS))
        self.register_buffer("average", averaging(tokens, trend_width(tokens)), persistent=False)

    def weights(self, h_BnD: Tensor) -> Tensor:
        """Weight [B, n, 4] of each expert for each token: the ``CHOSEN`` most likely ones, made to sum to 1."""
        trend = self.average @ h_BnD
        mixed = self.trend_norm(self.trend(trend)) + self.season_norm(self.season(h_BnD - trend))
        likely = self.gate(torch.relu(mixed)).softmax(-1)
        rank = likely.argsort(-1, descending=True).argsort(-1)
        chosen = likely * (rank < CHOSEN)
        return chosen / chosen.sum(-1, keepdim=True)

    def forward(self, h_BnD: Tensor) -> Tensor:
        x = self.norm(h_BnD)
        weight = self.weights(x) * self.scale
        hidden = gelu(torch.einsum("bnd,edh->bneh", x, self.inner) + self.inner_bias) * weight[..., None]
        return h_BnD + torch.einsum("bneh,ehd->bnd", hidden, self.outer) + weight @ self.outer_bias


def hidden_width(width: int, tokens: int, each: int) -> int:
    """Width inside the experts with which a module comes nearest to ``each`` parameters; at least 1."""
    one, two = (sum(p.numel() for p in AdaptiveTrend(width, tokens, h).parameters()) for h in (1, 2))
    return max(1, 1 + round((each - one) / (two - one)))


class FFTS(Method):
    """Everything is averaged; the trend experts move half-way a round, and clients are held near them."""

    name = "ffts"
    cite = "Chen et al. 2025, Federated Foundation Models on Heterogeneous Time Series (AAAI)"
    family = "series"
    takes_model = True
    only_averages = False
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # as the other methods; published 0.05
        weight: float = 0.01  # lambda, of the squared distance to the global experts; published code applies it twice
        momentum: float = 0.5  # what the server keeps of its experts, published code

    model: PatchTransformerModel

    def client(self, task: SeriesTask) -> nn.Module:
        """The backbone with an adaptive trend module after every encoder layer."""
        params = self.model.params
        with torch.device("meta"):  # only counted: the draws of this client's weights must not move
            plain = PatchTransformer(task, replace(params, dbe=False))
            each = round(GROWTH * sum(p.numel() for p in plain.parameters()) / params.layers)
            hidden = hidden_width(params.width, task.tokens, each)
        return PatchTransformer(task, params, lambda: AdaptiveTrend(params.width, task.tokens, hidden))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """The client model's steps, held near the experts that came down."""
        steps = self.model.steps(phase, self.params.lr)
        return [replace(step, loss=partial(self.held, step.loss), anchored=True) for step in steps]

    def held(self, loss: Loss, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """A loss + lambda times the sum over the experts' tensors of their mean squared distance."""
        outcome = loss(model, batch, moment)
        names = matching(moment.start, ("adapters",))
        distance = torch.stack([(model[name] - moment.start[name]).square().mean() for name in names]).sum()
        return outcome._replace(loss=outcome.loss + self.params.weight * distance)

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The weighted mean; for the experts half-way from where they were."""
        mean = super().aggregate(server, uploads)
        kept = {
            name: torch.lerp(mean[name], server[name], self.params.momentum) for name in matching(server, ("adapters",))
        }
        return mean | kept

    @property
    def averages_uploads(self) -> bool:
        """What moves half-way moves towards a mean."""
        return True
