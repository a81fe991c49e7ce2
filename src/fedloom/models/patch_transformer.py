"""A transformer over patches of a window that rebuilds the patches it does not see: the series family's client model.

FeDaL's backbone in the form that its printed size allows (28.41 M parameters); patches and masks as PatchTST's
(Nie et al. 2023), a learned mask vector and statistics of the visible part alone as Moirai's (Woo et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedloom.federation.masking import hide, points, token_seen, visible_scale
from fedloom.federation.method import ClientModel, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows
from fedloom.models.layers.domain_bias import DomainBias, Seasonal
from fedloom.models.layers.transformer import EncoderLayer

SUFFIX_BATCHES = 0.25  # of the batches hide a window's end: forecasting would be out of training's reach otherwise
SUFFIX = (0.25, 0.75)  # between these shares of a window
WARM = 0.05  # share of the rounds over which the learning rate rises

Adapter = Callable[[], nn.Module]


class Coded(NamedTuple):
    """A window's codes ``h`` [B, n, D], which of its tokens take part (``alive`` [B, n]), ``mean``, ``sd`` [B, 1]."""

    h: Tensor
    alive: Tensor
    mean: Tensor
    sd: Tensor


class PatchTransformer(nn.Module):
    """One client's encoder of patches, head and, where asked for, domain bias.

    ``forward`` rebuilds windows [B, L] in the scale of ``batch.x``. Points that are hidden or missing reach nothing:
    neither the statistics that a window is normalised by, nor a token. There is no dropout. ``adapter`` makes what
    follows each encoder layer (FFTS); it is called with codes.
    """

    def __init__(self, task: SeriesTask, params: PatchTransformerModel.Params, adapter: Adapter | None = None) -> None:
        super().__init__()
        width = params.width
        self.patch = task.patch
        self.embed = nn.Linear(task.patch, width)
        self.mask = nn.Parameter(nn.init.trunc_normal_(torch.empty(width), std=0.02))
        self.positions = nn.Parameter(nn.init.trunc_normal_(torch.empty(task.tokens, width), std=0.02))
        self.layers = nn.ModuleList(EncoderLayer(width, params.heads) for _ in range(params.layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.patch)
        # Last, so that what every method shares starts from the same draws.
        self.adapters = nn.ModuleList([adapter() for _ in range(params.layers)] if adapter else [])
        self.domain = DomainBias(width, task.tokens, params.seasonal) if params.dbe else None

    def embedded(self, batch: SeriesWindows) -> Coded:
        """Tokens before the encoder. Each observed point adds its value's part of the patch's code, each other one its
        share of the mask vector: a whole patch is its affine code, a hidden one the mask vector."""
        visible = batch.seen * ~points(batch.hidden, batch.seen.shape[-1])
        mean, sd = visible_scale(batch.x, visible)
        patches = ((batch.x - mean) / sd * visible).unflatten(-1, (-1, self.patch))
        known = visible.unflatten(-1, (-1, self.patch)).mean(-1)[..., None]
        token = patches @ self.embed.weight.T + known * self.embed.bias + (1 - known) * self.mask
        # Nothing attends to a token that holds no point and is not asked for (padding on the left, long gaps).
        alive = batch.hidden | token_seen(batch.seen, batch.hidden.shape[-1])
        return Coded(token + self.positions, alive, mean, sd)

    def encode(self, batch: SeriesWindows, layers: slice = slice(None)) -> Coded:
        """Codes after the encoder layers ``layers`` (all) and, after the last of them, the final norm."""
        coded = self.embedded(batch)
        return self.deeper(coded, layers)

    def deeper(self, coded: Coded, layers: slice = slice(None)) -> Coded:
        """Codes after the encoder layers ``layers``; with the final norm where the last layer is among them."""
        h, count = coded.h, len(self.layers)
        for position in range(*layers.indices(count)):
            h = self.layers[position](h, coded.alive)
            if self.adapters:
                h = self.adapters[position](h)
            if position == count - 1:
                h = self.norm(h)
        return coded._replace(h=h)

    def rebuilt(self, coded: Coded, bias: Tensor | None) -> Tensor:
        """Windows [B, L] read back from codes plus the bias [D], in the scale of the visible part."""
        return self.head(coded.h if bias is None else coded.h + bias).flatten(-2)

    def forward(self, batch: SeriesWindows) -> Tensor:
        coded = self.encode(batch)
        return self.rebuilt(coded, None if self.domain is None else self.domain.bias) * coded.sd + coded.mean

    def judged(self, coded: Coded, batch: SeriesWindows, below: int = 0) -> Tensor:
        """Error of windows whose codes have passed the layers ``below``, with the bias as it stands."""
        coded = self.deeper(coded, slice(below, None))
        return self.error(self.rebuilt(coded, None if self.domain is None else self.domain.bias), coded, batch)

    def masked_error(self, batch: SeriesWindows) -> Tensor:
        """Error of windows under the masks that they came with."""
        return self.judged(self.embedded(batch), batch)

    def error(self, rebuilt_BL: Tensor, coded: Coded, batch: SeriesWindows) -> Tensor:
        """Mean squared error over hidden observed points, in the scale of each window's visible part."""
        asked = points(batch.hidden, batch.seen.shape[-1]) * batch.seen * batch.valid[:, None]
        target = (batch.x - coded.mean) / coded.sd
        return ((rebuilt_BL - target).square() * asked).sum() / asked.sum().clamp(min=1)


def training_masks(batch: SeriesWindows, order_Bn: Tensor, suffix_2: Tensor) -> SeriesWindows:
    """The windows with masks of their own: three quarters of the tokens at random, or in some batches their end.

    ``order_Bn`` are uniform draws, a token each; ``suffix_2`` two for the batch, whether its windows' ends are hidden
    and how much of them.
    """
    tokens = order_Bn.shape[-1]
    scattered = hide(order_Bn, batch.seen)
    length = (tokens * (SUFFIX[0] + (SUFFIX[1] - SUFFIX[0]) * suffix_2[1])).round()
    ending = torch.arange(tokens, device=order_Bn.device) >= tokens - length
    hidden = torch.where(suffix_2[0] < SUFFIX_BATCHES, ending & token_seen(batch.seen, tokens), scattered)
    return batch._replace(hidden=hidden)


def rate(progress: float) -> float:
    """The learning rate's factor at a share of the rounds: up from a half over the first 5 %, then half a cosine."""
    if progress < WARM:
        return 0.5 + 0.5 * progress / WARM
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM) / (1 - WARM)))


class PatchTransformerModel(ClientModel):
    """The masked patch transformer; its head is the affine map back to points, its bias where it has one."""

    name = "patch_transformer"
    family = "series"
    head = ("head", "domain")

    @dataclass(frozen=True)
    class Params:
        """Quick sizes; desk 128, 3, 8 and paper 512, 9, 8, which has the printed bytes (the paper gives no shape)."""

        width: int = 64
        layers: int = 2
        heads: int = 4
        dbe: bool = False  # FeDaL's domain bias behind the encoder, whatever the method
        seasonal: Seasonal = "literal"  # or rms: see DomainBias
        memory: float = 0.9  # rho of the bias' moving average; ours
        clip: float = 1.0
        decay: float = 0.01

    def build(self, task: SeriesTask) -> nn.Module:
        """One client's transformer."""
        return PatchTransformer(task, self.params)

    def optimiser(self, phase: Phase, lr: float) -> Adam:
        """AdamW at the rate that the round calls for."""
        return Adam(lr * rate(phase.progress), self.params.clip, betas=(0.9, 0.98), decay=self.params.decay)

    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """One AdamW step on masks that are drawn for it."""
        return (Step(self.loss, self.optimiser(phase, lr), noise=MASKS),)

    def loss(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """Masked reconstruction; the bias is that of the minibatch, smoothed over minibatches."""
        error, bias = model(batch, moment, method=self.reconstruction)
        return Outcome(error, {} if bias is None else {"domain.bias": bias.detach()})

    def reconstruction(
        self, module: PatchTransformer, batch: SeriesWindows, moment: Moment
    ) -> tuple[Tensor, Tensor | None]:
        """Error of a module on a minibatch under masks of its own, and the bias [D] where there is one."""
        batch = training_masks(batch, moment.noise["order"], moment.noise["suffix"])
        coded = module.encode(batch)
        bias = None
        if module.domain is not None:
            bias = module.domain.smoothed(coded.h, coded.alive * batch.valid[:, None], self.params.memory)
        return module.error(module.rebuilt(coded, bias), coded, batch), bias


MASKS = {"order": Noise(("tokens",), "uniform"), "suffix": Noise((2,), "uniform", per_sample=False)}
