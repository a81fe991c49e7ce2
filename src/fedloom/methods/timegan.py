"""TimeGAN: a GAN in the latent space of an autoencoder, with a supervisor of its steps, federated by averaging
(Yoon, Jarrett, van der Schaar 2019; a baseline of Fed-CausalDiff).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.method import Method, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.five_nets import FiveNets
from fedloom.models.layers.sampled import Sampled, called, told_apart
from fedloom.models.layers.steps import masked_mean

EMBEDDED, SUPERVISED = 0.2, 0.4  # shares of the rounds after which a stage ends
GATE = 0.15  # a discriminator with a smaller loss rests
LEAST = 16  # sequences that a step's moments need; at fewer they are noise (ours)
TINY = 1e-8  # a root has no slope at 0


class TimeGAN(Sampled, Method):
    """Stages by shares of the rounds: the autoencoder, the supervisor, then all nets against the discriminator.

    All weights are averaged in every round. X and the actions are told to generator, recovery and discriminator, so
    that do(T) is a draw under other actions. The authors train generator and autoencoder twice for every step of the
    discriminator, by turns and on new minibatches: here each twice in a row on the discriminator's own. Losses and
    moments count the steps that exist, where the authors' learn the padding too. The authors keep the last weights; we
    those of the last stage whose draws are nearest to the validation part.
    """

    name = "timegan"
    cite = "Yoon, Jarrett, van der Schaar 2019, Time-series Generative Adversarial Networks, Sec. 4"
    family = "trajectory"
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        """The authors' code; ours are the width of noise (theirs: as many as columns) and the draws."""

        lr: float = 1e-3
        hidden: int = 24
        layers: int = 3  # one less in the supervisor
        noise: int = 8
        draws: int = 64  # behind a potential
        step_weight: float = 100.0  # of the supervised loss beside the adversarial one
        moment_weight: float = 100.0
        rebuild_weight: float = 10.0  # of the reconstruction

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: TrajectoryTask) -> nn.Module:
        p = self.params
        return FiveNets(task, p.hidden, p.layers, p.noise)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        done = round_ / rounds
        return (Phase("embed" if done < EMBEDDED else "supervise" if done < SUPERVISED else "joint"),)

    def selectable(self, round_: int, rounds: int) -> bool:
        """Rounds of the last stage alone."""
        return round_ / rounds >= SUPERVISED or round_ == rounds - 1

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One net at a time, or on every minibatch the discriminator, generator and supervisor, the autoencoder."""
        learn, ends = Adam(self.params.lr), ("embedder", "recovery")
        if phase.name == "embed":
            return (Step(self.rebuilding, learn, ends, "autoencoder"),)
        if phase.name == "supervise":
            return (Step(self.supervising, learn, ("supervisor",), "supervisor"),)
        z, makers = {"z": Noise(("longest", self.params.noise), "uniform")}, ("generator", "supervisor")
        return (
            Step(
                self.discriminating, learn, ("discriminator",), "discriminator",
                noise=z, above=GATE, gradient="gradient_of_d",
            ),
            Step(self.generating, learn, makers, "generator", repeat=2, noise=z, gradient="gradient_of_g"),
            Step(self.embedding, learn, ends, "embedding", repeat=2),
        )  # fmt: skip

    def rebuilding(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Error of what the recovery makes of real latents."""
        return Outcome(model(batch, method=self._rebuilt))

    def supervising(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Error of the supervisor's next latents, from those of real steps."""

        def loss(net: FiveNets, batch: Trajectories) -> Tensor:
            latent = net.embedded(batch)
            return _next_error(latent, net.supervised(batch, latent[None])[0], batch.mask)

        return Outcome(model(batch, method=loss))

    def embedding(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Reconstruction, and a tenth of the supervised loss: latents are to be foreseeable."""

        def loss(net: FiveNets, batch: Trajectories) -> Tensor:
            latent = net.embedded(batch)
            ahead = _next_error(latent, net.supervised(batch, latent[None])[0], batch.mask)
            return self._rebuilt(net, batch) + 0.1 * ahead

        return Outcome(model(batch, method=loss))

    def generating(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Drawn latents being called real, before and after the supervisor; next latents; moments of what is drawn."""
        return Outcome(model(batch, moment.noise["z"], method=self._generate))

    def discriminating(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Calling real latents real, and drawn ones drawn, before and after the supervisor."""
        return model(batch, moment.noise["z"], method=self._discriminate)

    def _rebuilt(self, net: FiveNets, batch: Trajectories) -> Tensor:
        error = (net.recovered(batch, net.embedded(batch)) - net.drawn(batch)).square().mean(-1)
        return self.params.rebuild_weight * (masked_mean(error, batch.mask) + TINY).sqrt()

    def _generate(self, net: FiveNets, batch: Trajectories, z_BLD: Tensor) -> Tensor:
        latent, proposed = net.embedded(batch), net.proposed(batch, z_BLD)
        drawn, ahead = net.supervised(batch, torch.stack([proposed, latent])).unbind()
        logits = net.discriminator(batch, torch.stack([drawn, proposed]))[..., 0]
        fooled = called(logits[0], 1, batch.mask) + called(logits[1], 1, batch.mask)
        step = (_next_error(latent, ahead, batch.mask) + TINY).sqrt()
        moments = _moments_apart(net.recovered(batch, drawn), net.drawn(batch), batch.mask)
        return fooled + self.params.step_weight * step + self.params.moment_weight * moments

    def _discriminate(self, net: FiveNets, batch: Trajectories, z_BLD: Tensor) -> Outcome:
        latent, proposed = net.embedded(batch), net.proposed(batch, z_BLD)
        drawn = net.supervised(batch, proposed[None])[0]
        real, made, raw = net.discriminator(batch, torch.stack([latent, drawn, proposed]))[..., 0].unbind()
        loss = called(real, 1, batch.mask) + called(made, 0, batch.mask) + called(raw, 0, batch.mask)
        return Outcome(loss, means={"accuracy_of_d": told_apart(real, made, batch.mask)})


def _next_error(latent_BLD: Tensor, ahead_BLD: Tensor, mask_BL: Tensor) -> Tensor:
    """Mean squared error of latents foreseen from the step before."""
    error = (latent_BLD[:, 1:] - ahead_BLD[:, :-1]).square().mean(-1)
    return masked_mean(error, mask_BL[:, 1:] * mask_BL[:, :-1])


def _moments_apart(drawn_BLF: Tensor, real_BLF: Tensor, mask_BL: Tensor) -> Tensor:
    """Difference of means plus that of standard deviations over sequences, by step and column."""
    weight = mask_BL[..., None]
    count = weight.sum(0)

    def moments(values: Tensor) -> tuple[Tensor, Tensor]:
        mean = (values * weight).sum(0) / count.clamp(min=1)
        variance = ((values - mean).square() * weight).sum(0) / count.clamp(min=1)
        return mean, (variance + 1e-6).sqrt()

    apart = torch.stack([(a - b).abs() for a, b in zip(moments(drawn_BLF), moments(real_BLF), strict=True)]).sum(0)
    enough = (count >= LEAST).to(apart.dtype)
    return (apart * enough).sum() / (enough.sum() * apart.shape[-1]).clamp(min=1)
