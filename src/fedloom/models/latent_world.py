"""The latent world model as a client model: what it minimises, and when.

Losses and phases of Fed-CausalDiff (Sec. on training: phases A, B, C), whose forms the paper leaves open; each form's
reason stands with it. What is shared between clients is the method's affair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from fedloom.federation.method import ClientModel, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.trajectory import COMMON_ACTIONS, Trajectories, TrajectoryTask
from fedloom.models.layers.diffusion import add_noise, denoised
from fedloom.models.layers.latent import ALIGNED, LatentWorld, Now, Widths
from fedloom.models.layers.matching import group_loss, grouped_mmd, reversal, reversed_gradient
from fedloom.models.layers.steps import picked_steps, side_by_side

PICKS = 8  # transitions a sequence and minibatch that the score learns from
MEMORY = 0.05  # weight of a minibatch in the running moments of latents
LEAST = 8  # rows that an action group needs in a minibatch to be aligned
LATER_STEPS = 5  # diffusion steps of the latents that the decoder trains on
REFINE = 0.7  # share of the rounds after which the encoder rests


class LatentWorldModel(ClientModel):
    """Phases: A learns representation and decoders; B the dynamics; C fits the outcome decoder to sampled latents.

    The first fifth of the rounds runs A alone (a latent space must exist before its dynamics), the next half A at half
    the rate and B on its latents, the rest B and C with the encoder at rest.
    """

    name = "latent_world"
    family = "trajectory"
    head = ("confounding_score", "behaviour", "group_of_causal", "group_of_confounding")

    @dataclass(frozen=True)
    class Params:
        divided: bool = False  # causal and confounding score, or one net of their joint size
        levels: int = 100  # noise levels; 48 numbers need no more
        sampler_steps: int = 10  # DDIM steps of a simulation
        behaviour_weight: float = 0.2  # of the logged action's cross-entropy in the reconstruction
        align_weight: float = 0.1  # lambda 1
        disentangle_weight: float = 0.1  # lambda 2
        consistency_weight: float = 0.1  # lambda 3
        align: Literal["before", "literal"] = "before"  # literal: sampled next latents under factual and random actions
        clip: float = 1.0

    def build(self, task: TrajectoryTask) -> nn.Module:
        """One client's world."""
        return LatentWorld(task, Widths(), self.params.divided, self.params.levels)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """One phase a round; its name says which losses run."""
        done = round_ / rounds
        return (Phase("represent" if done < 0.2 else "both" if done < REFINE else "refine"),)

    def selectable(self, round_: int, rounds: int) -> bool:
        """Only rounds whose dynamics and decoder have been trained may be selected."""
        return round_ / rounds >= REFINE or round_ == rounds - 1

    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """A, B and C on every minibatch, each with its own optimiser, as the phase says."""
        clip = self.params.clip
        encoder = ("static", "static_codes", "context", "action_past", "enter", "memory", "to_causal", "to_confounding")
        decoders = ("action_outcome", "outcome", "next_context", "behaviour", "group_of_causal", "group_of_confounding")
        score = ("action_score", "causal_score", *(("confounding_score",) if self.params.divided else ()), "history")
        cosine = lr * 0.5 * (1 + math.cos(math.pi * phase.progress))
        at_most = Widths().latent
        each = {"pick": Noise((PICKS,), "uniform"), "level": Noise((PICKS,), "uniform")}
        each |= {"noise": Noise((PICKS, at_most)), "other": Noise((PICKS,), "uniform")}
        learn = Step(
            self.representation,
            Adam(lr if phase.name == "represent" else lr / 2, clip),
            encoder + decoders,
            name="A",
            noise={"row": Noise((1,), "uniform")},
        )
        move = Step(self.dynamics, Adam(cosine, clip), score, name="B", noise=each)
        refine = Step(self.refinement, Adam(lr / 2, clip), ("action_outcome", "outcome"), name="C", noise=each)
        return {"represent": (learn,), "both": (learn, move), "refine": (move, refine)}[phase.name]

    # -- what a trained world answers ------------------------------------------------------------------------------

    def potentials(self, model: Bound, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
        """Probability of the outcome under each of ``actions`` [A] at the logged histories, [B, L, A]."""
        return torch.sigmoid(model(batch, actions, method="potentials"))

    def simulate(
        self, model: Bound, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        """do(T = plan) from step ``first`` (from 0) on: outcome probabilities [P, B, M, W].

        Every sequence has P plans of its own. ``noise`` [B, M, W, D] and ``luck`` [B, M, W] are shared by all of them
        (common random numbers).
        """
        return model(batch, plans_PBW, first, noise, luck, method=self._simulate)

    def _simulate(
        self, world: LatentWorld, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        latent, a = world.encode(batch)[:, first], batch.a[:, first]
        parts = side_by_side(plans_PBW, noise, luck, latent, a, world.static_code(batch))
        return world.rollout(*parts, steps=self.params.sampler_steps)

    def generate(
        self, model: Bound, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor
    ) -> Trajectories:
        """Synthetic sequences with the static features, first context and length of those in ``batch``."""
        return model(batch, noise, luck_t, luck_y, self.params.sampler_steps, method="generate")

    @property
    def noise_width(self) -> int:
        """Numbers of noise that a simulated step needs."""
        return Widths().latent

    @property
    def potential_draws(self) -> int:
        """None: a potential is a mean already, read from the logged history."""
        return 0

    @property
    def source(self) -> Literal["synthetic", "partly_synthetic"]:
        """All but static features, first contexts and lengths is drawn."""
        return "synthetic"

    @property
    def reads_history(self) -> bool:
        """The latent of a step is read from all before it."""
        return True

    # -- phase A: representation and decoders ---------------------------------------------------------------------

    def representation(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Reconstruction + lambda 1 alignment + lambda 2 disentangling; also the latents' running moments."""
        return model(batch, moment, method=self._represent)

    def _represent(self, world: LatentWorld, batch: Trajectories, moment: Moment) -> Outcome:
        latent, static = world.encode(batch), _every_step(world.static_code(batch), batch)
        kc, ks = latent.split([world.widths.causal, world.widths.confounding], -1)
        loss = self._reconstruction(world, batch, latent, static)
        if self.params.align == "before":
            loss = loss + self.params.align_weight * _alignment(world, batch, kc, moment.noise["row"])
        strength = reversal(moment.progress)  # CRN's schedule
        group = _action_group(world, batch.t)
        hidden = group_loss(world.group_of_causal(reversed_gradient(kc, strength)), group, batch.mask)
        kept = group_loss(world.group_of_confounding(ks), group, batch.mask)
        loss = loss + self.params.disentangle_weight * (hidden + kept)
        return Outcome(loss, buffers=_moments(world, latent.detach(), batch.mask))

    def _reconstruction(self, world: LatentWorld, batch: Trajectories, latent: Tensor, static: Tensor) -> Tensor:
        """Outcome, context and logged action read back from K_t, each a mean over the steps that exist."""
        outcome = bce(world.outcome_logit(latent, batch.a, batch.t, static), batch.y, reduction="none")
        decoded = world.next_context(latent, static)
        error = torch.where(world.binary, bce(decoded, batch.a, reduction="none"), (decoded - batch.a).square())
        # The logged action teaches ks alone: kc should not carry the logging policy.
        kc, ks = latent.split([world.widths.causal, world.widths.confounding], -1)
        logits = world.behaviour(torch.cat([kc.detach(), ks, world.context(batch.a), static], -1))
        action = group_loss(logits, batch.t.clamp(max=logits.shape[-1] - 1), batch.mask)
        steps = batch.mask.sum().clamp(min=1)
        read_back = ((outcome + error.mean(-1)) * batch.mask).sum() / steps
        return read_back + self.params.behaviour_weight * action

    # -- phase B: dynamics ----------------------------------------------------------------------------------------

    def dynamics(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Denoising error of the latent's next change + lambda 3 consistency under another action."""
        return model(batch, moment, method=self._move)

    def _move(self, world: LatentWorld, batch: Trajectories, moment: Moment) -> Outcome:
        now, after, weight = _transitions(world, batch, moment.noise["pick"])
        mean, sd = world.change_scale()
        change = (after.latent - now.latent - mean) / sd
        level = (moment.noise["level"] * self.params.levels).long()
        noise, share = moment.noise["noise"], world.share[level]
        predicted = world.scorer(now.given, now.t)(add_noise(change, noise, share), level)
        loss = ((predicted - noise).square().mean(-1) * weight).sum()
        few = slice(0, 2)  # consistency costs two more passes of the score
        low = level[:, few] // 4
        noised = add_noise(change[:, few], noise[:, few], world.share[low])
        given = Now(*(part[:, few] for part in now.given))
        other = world.common[(moment.noise["other"][:, few] * min(ALIGNED, len(world.common))).long()]
        kc = given.latent[..., : world.widths.causal]
        guesses = []
        for action in (now.t[:, few], other):
            clean = denoised(noised, world.scorer(given, action)(noised, low), world.share[low])
            guesses.append(world.after(given, clean.clamp(-4, 4)))
        drift = sum((world.history(guess) - kc).square().mean(-1) for guess in guesses)
        loss = loss + self.params.consistency_weight * (drift * weight[:, few]).sum() / weight[:, few].sum().clamp(
            min=1e-6
        )
        if self.params.align == "literal":
            exists = (weight[:, few] > 0).to(loss.dtype).flatten()
            rows = torch.cat([guess.flatten(0, 1) for guess in guesses])
            factual, random = torch.cat([exists, 0 * exists]), torch.cat([0 * exists, exists])
            loss = loss + self.params.align_weight * grouped_mmd(rows, factual[None], random)[0]
        return Outcome(loss)

    # -- phase C: the decoder meets sampled latents ---------------------------------------------------------------

    def refinement(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """The outcome decoder on real latents, and at half weight on latents sampled one step ahead."""
        return model(batch, moment, method=self._refine)

    def _refine(self, world: LatentWorld, batch: Trajectories, moment: Moment) -> Outcome:
        latent, static = world.encode(batch), _every_step(world.static_code(batch), batch)
        real = bce(world.outcome_logit(latent, batch.a, batch.t, static), batch.y, reduction="none") * batch.mask
        now, after, weight = _transitions(world, batch, moment.noise["pick"])
        sampled = world.advance(moment.noise["noise"], now.given, now.t, LATER_STEPS).detach()
        logit = world.outcome_logit(sampled, after.a, after.t, after.static)
        ahead = (bce(logit, after.y, reduction="none") * weight).sum()
        return Outcome(real.sum() / batch.mask.sum().clamp(min=1) + 0.5 * ahead)


class Picked(NamedTuple):
    """Steps picked out of sequences, [B, P, ...]."""

    latent: Tensor
    a: Tensor
    t: Tensor
    y: Tensor
    static: Tensor

    @property
    def given(self) -> Now:
        """What a transition from these steps starts from."""
        return Now(self.latent, self.a, self.y, self.static)


def _every_step(code_BE: Tensor, batch: Trajectories) -> Tensor:
    return code_BE[:, None].expand(-1, batch.t.shape[1], -1)


def _transitions(world: LatentWorld, batch: Trajectories, pick_BP: Tensor) -> tuple[Picked, Picked, Tensor]:
    """Random steps of each sequence, those after them, and weights [B, P] that make every transition count alike."""
    latent, static = world.encode(batch).detach(), world.static_code(batch)
    count = (batch.mask.sum(1) - 1).clamp(min=0)
    at = (pick_BP * count[:, None]).long().clamp(max=batch.t.shape[1] - 2)
    weight = count[:, None].expand_as(pick_BP)

    def steps(at_BP: Tensor) -> Picked:
        def take(values: Tensor) -> Tensor:
            wide = at_BP[..., None].expand(-1, -1, values.shape[-1])
            return values.gather(1, wide)

        t, y = batch.t.gather(1, at_BP), batch.y.gather(1, at_BP)
        return Picked(take(latent), take(batch.a), t, y, static[:, None].expand(-1, at_BP.shape[1], -1))

    return steps(at), steps(at + 1), weight / weight.sum().clamp(min=1)


def _alignment(world: LatentWorld, batch: Trajectories, kc: Tensor, row_B1: Tensor) -> Tensor:
    """Discrepancy between kc before each action group and kc before any action, weighted by group size.

    do(T_t) leaves the law of K_t as it is; the logged law given T_t is what confounding has bent. One random step a
    sequence keeps rows independent.
    """
    length = batch.mask.sum(1, keepdim=True)
    at = picked_steps(batch.mask, row_B1)
    rows = kc.gather(1, at[..., None].expand(-1, -1, kc.shape[-1]))[:, 0]
    exists = (length[:, 0] > 0).to(kc.dtype)
    groups = (batch.t.gather(1, at)[:, 0][None] == world.aligned[:, None]).to(kc.dtype) * exists
    size = groups.sum(1)
    size = torch.where(size >= LEAST, size, torch.zeros_like(size))
    return (grouped_mmd(rows, groups, exists) * size).sum() / size.sum().clamp(min=1)


def _action_group(world: LatentWorld, t: Tensor) -> Tensor:
    """The place of each action among the most frequent ones, or the group of all others."""
    same = t[..., None] == world.common
    return torch.where(same.any(-1), same.to(torch.uint8).argmax(-1), COMMON_ACTIONS)


def _moments(world: LatentWorld, latent: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Running first and second moments of latents and of their changes, this minibatch taken in."""
    both = mask[:, 1:] * mask[:, :-1]
    fresh = {"latent": (latent, mask), "change": (latent[:, 1:] - latent[:, :-1], both)}
    buffers = {}
    for name, (values, weight) in fresh.items():
        total = weight.sum()
        for kind, powers in (("mean", values), ("square", values.square())):
            old = getattr(world, f"{name}_{kind}")
            new = (powers * weight[..., None]).sum((0, 1)) / total.clamp(min=1)
            buffers[f"{name}_{kind}"] = torch.where(total > 0, torch.lerp(old, new.to(old.dtype), MEMORY), old)
    return buffers
