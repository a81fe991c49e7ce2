"""The parts of a latent world model of trajectories: encoder, diffusion of the latent's next change, decoders.

``K_t = [kc_t, ks_t]`` is read from what is known before action ``T_t`` is chosen; outcome and next latent follow from
(K_t, A_t, T_t, Y_t). Divided, the noise of the next change is predicted by the sum of a
causal score, which sees the action, and a confounding score, which does not. Undivided, one net of their joint size
predicts it from everything. Widths and forms the paper leaves open are ours and stand beside each default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, silu

from fedloom.federation.tasks.trajectory import COMMON_ACTIONS, Trajectories, TrajectoryTask
from fedloom.models.layers.diffusion import Noise, ddim, level_code, signal_share
from fedloom.models.layers.recurrent import GRU
from fedloom.models.layers.steps import drawn_kind

ALIGNED = 6  # action groups whose latents are aligned: both anchors and the most frequent others


@dataclass(frozen=True)
class Widths:
    """Sizes of the parts; the paper gives none."""

    code: int = 16  # every embedding
    hidden: int = 64  # recurrent state
    causal: int = 32  # kc
    confounding: int = 16  # ks
    causal_score: int = 128
    confounding_score: int = 64
    level: int = 32  # code of the noise level

    @property
    def latent(self) -> int:
        """Width of K = [kc, ks]."""
        return self.causal + self.confounding


class Score(nn.Module):
    """Predicted noise [..., D]: two residual SiLU blocks; the last map starts at zero, so that parts can add up.

    The first map is taken apart: what stays the same while a vector is sampled (``known``) passes it once.
    """

    def __init__(self, fresh: int, known: int, width: int, outputs: int) -> None:
        super().__init__()
        self.fresh = fresh
        self.enter, self.leave = nn.Linear(fresh + known, width), nn.Linear(width, outputs)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def known(self, *parts: Tensor) -> Tensor:
        """The share of the first map [..., width] that does not depend on the noised vector and its level."""
        return linear(torch.cat(parts, -1), self.enter.weight[:, self.fresh :], self.enter.bias)

    def forward(self, noised: Tensor, level: Tensor, known: Tensor) -> Tensor:
        """From noised vectors [..., D], codes of their level [..., E] or of one level for all [E], and ``known``."""
        by_vector, by_level = self.enter.weight[:, : self.fresh].split([noised.shape[-1], level.shape[-1]], 1)
        h = silu(linear(noised, by_vector) + linear(level, by_level) + known)
        for block in self.blocks:
            h = h + silu(block(h))
        return self.leave(h)


class Head(nn.Module):
    """A small map with one hidden layer."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(inputs, width), nn.Linear(width, outputs)

    def forward(self, *parts: Tensor) -> Tensor:
        return self.outer(silu(self.inner(torch.cat(parts, -1))))


class Now(NamedTuple):
    """What a transition starts from: K_t [..., D], A_t [..., Fa], Y_t [...], static code [..., E]."""

    latent: Tensor
    a: Tensor
    y: Tensor
    static: Tensor


class LatentWorld(nn.Module):
    """All parts of one client; buffers hold running first and second moments of latents and of their changes."""

    share: Tensor
    binary: Tensor
    common: Tensor
    aligned: Tensor
    change_mean: Tensor
    change_square: Tensor
    latent_mean: Tensor
    latent_square: Tensor

    def __init__(self, task: TrajectoryTask, widths: Widths, divided: bool, levels: int) -> None:
        super().__init__()
        w, actions, self.widths, self.divided = widths, task.actions + 1, widths, divided
        self.start_action = task.actions
        self.static = nn.Linear(task.arrays.x.shape[-1], w.code)
        self.static_codes = nn.ParameterList(nn.Parameter(0.1 * torch.randn(n, w.code)) for n in task.x_categories)
        self.context = nn.Linear(task.arrays.a.shape[-1], w.code)
        self.action_past, self.action_score, self.action_outcome = (
            nn.Parameter(torch.randn(actions, w.code)) for _ in range(3)
        )
        self.enter = nn.Linear(3 * w.code + 1, w.hidden)
        self.memory = GRU(w.hidden, w.hidden)
        self.to_causal, self.to_confounding = nn.Linear(w.hidden, w.causal), nn.Linear(w.hidden, w.confounding)
        fresh, seen = w.latent + w.level, w.causal + 3 * w.code + 1
        if divided:
            self.causal_score = Score(fresh, seen, w.causal_score, w.latent)
            self.confounding_score = Score(fresh, w.confounding + 2 * w.code, w.confounding_score, w.latent)
        else:
            joint = round((w.causal_score**2 + w.confounding_score**2) ** 0.5)
            self.causal_score = Score(fresh, seen + w.confounding, joint, w.latent)
        self.outcome = Head(w.latent + 3 * w.code, w.hidden, 1)
        self.next_context = Head(w.latent + w.code, w.causal, task.arrays.a.shape[-1])
        self.history = nn.Linear(w.latent, w.causal)
        self.behaviour = nn.Linear(w.latent + 2 * w.code, task.actions)
        self.group_of_causal = Head(w.causal, w.causal, COMMON_ACTIONS + 1)
        self.group_of_confounding = Head(w.confounding, w.causal, COMMON_ACTIONS + 1)
        self.register_buffer("share", signal_share(levels), persistent=False)
        self.register_buffer("binary", task.binary.cpu(), persistent=False)
        common, anchors = task.common.cpu(), torch.tensor(task.anchors)
        self.register_buffer("common", common, persistent=False)
        others = common[(common[:, None] != anchors).all(1)]
        self.register_buffer("aligned", torch.cat([anchors, others])[:ALIGNED], persistent=False)
        for name in ("change", "latent"):
            self.register_buffer(f"{name}_mean", torch.zeros(w.latent))
            self.register_buffer(f"{name}_square", torch.ones(w.latent))

    # -- representation ------------------------------------------------------------------------------------------

    def static_code(self, batch: Trajectories) -> Tensor:
        """Code of the static features, [B, E]."""
        code = self.static(batch.x)
        for i, table in enumerate(self.static_codes):
            code = code + table[batch.x_code[..., i]]
        return code

    def project(self, latent: Tensor) -> Tensor:
        """Both halves of a latent [..., D] back to zero mean and unit variance."""
        kc, ks = latent.split([self.widths.causal, self.widths.confounding], -1)
        return torch.cat([layer_norm(kc, kc.shape[-1:]), layer_norm(ks, ks.shape[-1:])], -1)

    def encode(self, batch: Trajectories) -> Tensor:
        """K_t [B, L, D] of every step, from X, A_<=t, T_<t, Y_<t."""
        first = torch.full_like(batch.t[:, :1], self.start_action)
        past_t = torch.cat([first, batch.t[:, :-1]], 1)
        past_y = torch.cat([torch.zeros_like(batch.y[:, :1]), 2 * batch.y[:, :-1] - 1], 1)
        static = self.static_code(batch)[:, None].expand(-1, batch.t.shape[1], -1)
        u = torch.cat([self.action_past[past_t], past_y[..., None], self.context(batch.a), static], -1)
        h = self.memory(silu(self.enter(u)))
        return self.project(torch.cat([self.to_causal(h), self.to_confounding(h)], -1))

    # -- decoders ------------------------------------------------------------------------------------------------

    def outcome_logit(self, latent: Tensor, a: Tensor, t: Tensor, static: Tensor) -> Tensor:
        """Logit of Y_t given K_t, A_t, T_t and the static code; all [..., width] (t without)."""
        return self.outcome(latent, self.context(a), self.action_outcome[t], static)[..., 0]

    def forward(self, batch: Trajectories) -> Tensor:
        """Logits of the logged outcomes, [B, L]."""
        static = self.static_code(batch)[:, None].expand(-1, batch.t.shape[1], -1)
        return self.outcome_logit(self.encode(batch), batch.a, batch.t, static)

    def potentials(self, batch: Trajectories, actions: Tensor) -> Tensor:
        """Logits of the outcome under each of ``actions`` [A] at the logged history, [B, L, A]."""
        latent, static = self.encode(batch), self.static_code(batch)[:, None].expand(-1, batch.t.shape[1], -1)
        under = [self.outcome_logit(latent, batch.a, action.expand_as(batch.t), static) for action in actions]
        return torch.stack(under, -1)

    def decoded_context(self, latent: Tensor, static: Tensor) -> Tensor:
        """Context A_t [..., Fa] read back from K_t: scaled values, probabilities of 0/1 columns."""
        decoded = self.next_context(latent, static)
        return torch.where(self.binary, torch.sigmoid(decoded), decoded)

    # -- dynamics ------------------------------------------------------------------------------------------------

    def change_scale(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [D] of a latent's change from one step to the next."""
        return self.change_mean, _deviation(self.change_mean, self.change_square)

    def standardised(self, latent: Tensor) -> Tensor:
        """Latents [..., D] per dimension at mean 0 and variance 1."""
        return (latent - self.latent_mean) / _deviation(self.latent_mean, self.latent_square)

    def scorer(self, now: Now, t: Tensor) -> Noise:
        """What predicts the noise of noised changes from ``now`` under action ``t``: causal plus confounding score."""
        latent, a, y, static = now
        kc, ks = self.standardised(latent).split([self.widths.causal, self.widths.confounding], -1)
        context = self.context(a)
        caused = (kc, self.action_score[t], context, static, 2 * y[..., None] - 1)
        own = self.causal_score.known(*caused) if self.divided else self.causal_score.known(*caused, ks)
        bent = self.confounding_score.known(ks, context, static) if self.divided else None

        def predict(noised: Tensor, level: Tensor) -> Tensor:
            at = level_code(level, self.widths.level, noised.dtype)
            predicted: Tensor = self.causal_score(noised, at, own)
            return predicted if bent is None else predicted + self.confounding_score(noised, at, bent)

        return predict

    def after(self, now: Now, change: Tensor) -> Tensor:
        """K_{t+1} [..., D] from K_t and a standardised change."""
        mean, sd = self.change_scale()
        return self.project(now.latent + mean + sd * change)

    def advance(self, noise: Tensor, now: Now, t: Tensor, steps: int) -> Tensor:
        """Sample K_{t+1} [..., D] from noise of the same shape by ``steps`` deterministic diffusion steps."""
        return self.after(now, ddim(self.scorer(now, t), noise, self.share, steps))

    def rollout(
        self, latent: Tensor, a: Tensor, static: Tensor, plan: Tensor, noise: Tensor, luck: Tensor, *, steps: int
    ) -> Tensor:
        """Outcome probabilities [..., W] when the actions of ``plan`` [..., W] are taken from here on.

        ``latent`` [..., D] and ``a`` [..., Fa] are those of the first planned step, ``noise`` [..., W, D] and ``luck``
        [..., W] (uniform) drive latent and outcome. Probabilities are recorded, not draws.
        """
        recorded = []
        window = zip(plan.unbind(-1), noise.unbind(-2), luck.unbind(-1), strict=True)
        for t, z, u in window:
            p = torch.sigmoid(self.outcome_logit(latent, a, t, static))
            recorded.append(p)
            y = (u < p).to(p.dtype)
            latent = self.advance(z, Now(latent, a, y, static), t, steps)
            a = self.decoded_context(latent, static)
        return torch.stack(recorded, -1)

    def generate(self, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor, steps: int) -> Trajectories:
        """Synthetic sequences in place of those of ``batch``: their X, first A and length, all else drawn.

        ``noise`` [B, L, D], ``luck_t`` and ``luck_y`` [B, L] (uniform) drive latents, actions and outcomes; actions
        come from the client's own logging policy, the behaviour head.
        """
        latent, static, a = self.encode(batch)[:, 0], self.static_code(batch), batch.a[:, 0]
        drawn: dict[str, list[Tensor]] = {"a": [], "t": [], "y": []}
        for z, u_t, u_y in zip(noise.unbind(1), luck_t.unbind(1), luck_y.unbind(1), strict=True):
            policy = self.behaviour(torch.cat([latent, self.context(a), static], -1)).softmax(-1)
            t = drawn_kind(policy, u_t)
            y = (u_y < torch.sigmoid(self.outcome_logit(latent, a, t, static))).to(a.dtype)
            for name, value in (("a", a), ("t", t), ("y", y)):
                drawn[name].append(value)
            latent = self.advance(z, Now(latent, a, y, static), t, steps)
            a = self.decoded_context(latent, static)
        made = {name: torch.stack(values, 1) for name, values in drawn.items()}
        made["t"] = torch.where(batch.mask > 0, made["t"], self.start_action)
        return batch._replace(**made)


def _deviation(mean: Tensor, square: Tensor) -> Tensor:
    return (square - mean.square()).clamp(min=1e-6).sqrt()
