"""RCGAN: a recurrent conditional GAN, federated by averaging (Esteban, Hyland, Rätsch 2017; a baseline of
Fed-CausalDiff).
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
from fedloom.models.layers.lstm import LSTM, lstm_step
from fedloom.models.layers.sampled import Drawn, Given, Sampled, called, read_out, told_apart


class Recurrent(nn.Module):
    """One LSTM that is told X and the actions, and a linear map of its state at every step."""

    def __init__(self, task: TrajectoryTask, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.given = Given(task)
        self.memory = LSTM(inputs + self.given.width, hidden)
        self.leave = nn.Linear(hidden, outputs)

    def forward(self, batch: Trajectories, x_KBLF: Tensor) -> Tensor:
        """From K kinds of inputs for the same sequences to [K, B, L, outputs]."""
        told = self.given(batch).expand(*x_KBLF.shape[:-1], -1)
        return read_out(self.memory, self.leave, torch.cat([x_KBLF, told], -1))


class AdversarialPair(nn.Module):
    """Generator and discriminator; what each is told has codes of its own, so that neither trains the other's."""

    def __init__(self, task: TrajectoryTask, hidden: int, noise: int) -> None:
        super().__init__()
        self.generator = Recurrent(task, noise, hidden, task.drawn)
        self.discriminator = Recurrent(task, task.drawn, hidden, 1)
        self.drawn, self.hidden = Drawn(task), hidden
        with torch.no_grad():  # the authors' generator opens all gates at first
            self.generator.memory.weights["bias_ih_l0"].fill_(1)
            self.generator.memory.weights["bias_hh_l0"].zero_()

    def generated(self, batch: Trajectories, z_BLD: Tensor) -> Tensor:
        """Contexts and outcomes [B, L, F] in place of the sequences' own."""
        return torch.sigmoid(self.generator(batch, z_BLD[None])[0])

    def told(self, batch: Trajectories) -> Tensor:
        """What the generator is told of X, [B, S]."""
        return self.generator.given.of_static(batch)

    def begin(self, like: Tensor) -> tuple[Tensor, ...]:
        """Nothing is remembered."""
        state = like.new_zeros((*like.shape[:-1], self.hidden))
        return state, state

    def advance(
        self, state: tuple[Tensor, ...], static: Tensor, t: Tensor, z: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """One step of the generator: its state after it, and what is drawn there [..., F]."""
        net = self.generator
        after = lstm_step(torch.cat([z, net.given.at(static, t)], -1), state, net.memory.weights)
        return after, torch.sigmoid(net.leave(after[0]))


class RCGAN(Sampled, Method):
    """A generator of contexts and outcomes given X and actions, and a discriminator that calls every step.

    All weights are averaged. Ours: Adam for both nets (the authors' discriminator takes plain steps of 0.1, which
    swings where weights are replaced every round), sigmoids on [0, 1] for tanh on [-1, 1], last maps that start small
    (the authors' starts at the bounds, where few steps do not lead away), and a little noise on what the discriminator
    sees, without which outcomes of 0 and 1 give the real ones away. Rounds are chosen as the authors choose epochs:
    by a kernel's two-sample statistic of what is drawn and the validation part.
    """

    name = "rcgan"
    cite = "Esteban, Hyland, Rätsch 2017, arXiv 1706.02633, Sec. 3"
    family = "trajectory"
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        """Width and noise of the authors' code; the rest is ours."""

        lr: float = 1e-3
        hidden: int = 64  # the authors': 100; ours for messages of the other methods' size
        noise: int = 10
        blur: float = 0.05  # standard deviation of the noise on what the discriminator sees
        draws: int = 64  # behind a potential

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: TrajectoryTask) -> nn.Module:
        return AdversarialPair(task, self.params.hidden, self.params.noise)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """The discriminator's step, then the generator's, on every minibatch."""
        learn = Adam(self.params.lr, betas=(0.5, 0.999))
        draws = {"z": Noise(("longest", self.params.noise)), "blur": Noise(("longest", "drawn"))}
        seen = draws | {"real": Noise(("longest", "drawn"))}
        return (
            Step(self.discriminating, learn, ("discriminator",), "discriminator", noise=seen, gradient="gradient_of_d"),
            Step(self.generating, learn, ("generator",), "generator", noise=draws, gradient="gradient_of_g"),
        )

    def discriminating(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Cross-entropy of calling real sequences real and drawn ones drawn, at every step that exists."""
        return model(batch, moment.noise, method=self._discriminate)

    def generating(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Cross-entropy of drawn sequences being called real (the form that does not saturate)."""
        return model(batch, moment.noise, method=self._generate)

    def _discriminate(self, net: AdversarialPair, batch: Trajectories, noise: dict[str, Tensor]) -> Outcome:
        real = net.drawn(batch) + self.params.blur * noise["real"]
        drawn = net.generated(batch, noise["z"]) + self.params.blur * noise["blur"]
        of_real, of_drawn = net.discriminator(batch, torch.stack([real, drawn]))[..., 0].unbind()
        loss = called(of_real, 1, batch.mask) + called(of_drawn, 0, batch.mask)
        return Outcome(loss, means={"accuracy_of_d": told_apart(of_real, of_drawn, batch.mask)})

    def _generate(self, net: AdversarialPair, batch: Trajectories, noise: dict[str, Tensor]) -> Outcome:
        drawn = net.generated(batch, noise["z"]) + self.params.blur * noise["blur"]
        return Outcome(called(net.discriminator(batch, drawn[None])[0, ..., 0], 1, batch.mask))
