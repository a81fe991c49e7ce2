"""The five nets of TimeGAN (Yoon, Jarrett, van der Schaar 2019, Sec. 4), told X and the actions, step by step too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.special import ndtr

from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.gru import StackedGRU
from fedloom.models.layers.sampled import Drawn, Given, read_out


class Stack(nn.Module):
    """Recurrent layers and a linear map of the topmost state, told X and the actions where ``told``."""

    def __init__(
        self, task: TrajectoryTask, inputs: int, hidden: int, layers: int, outputs: int, told: bool = False
    ) -> None:
        super().__init__()
        self.given = Given(task) if told else None
        self.memory = StackedGRU(inputs + (self.given.width if self.given else 0), hidden, layers)
        self.leave = nn.Linear(hidden, outputs)

    def forward(self, batch: Trajectories, x_KBLF: Tensor) -> Tensor:
        """From K kinds of inputs for the same sequences to [K, B, L, outputs]."""
        u = x_KBLF
        if self.given is not None:
            u = torch.cat([u, self.given(batch).expand(*u.shape[:-1], -1)], -1)
        return read_out(self.memory, self.leave, u)


class FiveNets(nn.Module):
    """Embedder and recovery, generator, supervisor, discriminator; latents and what is drawn lie in [0, 1]."""

    def __init__(self, task: TrajectoryTask, hidden: int, layers: int, noise: int) -> None:
        super().__init__()
        self.embedder = Stack(task, task.drawn, hidden, layers, hidden)
        self.recovery = Stack(task, hidden, hidden, layers, task.drawn, told=True)
        self.generator = Stack(task, noise, hidden, layers, hidden, told=True)
        self.supervisor = Stack(task, hidden, hidden, layers - 1, hidden)
        self.discriminator = Stack(task, hidden, hidden, layers, 1, told=True)
        self.drawn = Drawn(task)

    # -- whole sequences -----------------------------------------------------------------------------------------

    def embedded(self, batch: Trajectories) -> Tensor:
        """Latents H [B, L, D] of the real sequences."""
        return torch.sigmoid(self.embedder(batch, self.drawn(batch)[None])[0])

    def recovered(self, batch: Trajectories, latent_BLD: Tensor) -> Tensor:
        """Contexts and outcomes [B, L, F] behind latents."""
        return torch.sigmoid(self.recovery(batch, latent_BLD[None])[0])

    def proposed(self, batch: Trajectories, z_BLD: Tensor) -> Tensor:
        """Latents E [B, L, D] from uniform noise."""
        return torch.sigmoid(self.generator(batch, z_BLD[None])[0])

    def supervised(self, batch: Trajectories, latent_KBLD: Tensor) -> Tensor:
        """What the supervisor makes of latents: of real ones, the next step's."""
        return torch.sigmoid(self.supervisor(batch, latent_KBLD))

    # -- step by step --------------------------------------------------------------------------------------------

    def _stacks(self) -> tuple[Stack, ...]:
        return self.generator, self.supervisor, self.recovery

    def told(self, batch: Trajectories) -> Tensor:
        """What generator and recovery are told of X, each by codes of its own, [B, S]."""
        return torch.cat([stack.given.of_static(batch) for stack in self._stacks() if stack.given], -1)

    def begin(self, like: Tensor) -> tuple[Tensor, ...]:
        """Nothing is remembered, by any layer."""
        layers = [(stack.memory.layers, stack.memory.hidden) for stack in self._stacks()]
        return tuple(like.new_zeros((*like.shape[:-1], hidden)) for count, hidden in layers for _ in range(count))

    def advance(
        self, state: tuple[Tensor, ...], static: Tensor, t: Tensor, z: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """One step of generator, supervisor and recovery: states after it, and what is drawn there [..., F]."""
        after: tuple[Tensor, ...] = ()
        known = iter(static.chunk(2, -1))
        x = ndtr(z)  # uniform
        for stack in self._stacks():
            if stack.given is not None:
                x = torch.cat([x, stack.given.at(next(known), t)], -1)
            states = stack.memory.step(x, state[len(after) : len(after) + stack.memory.layers])
            after, x = after + states, torch.sigmoid(stack.leave(states[-1]))
        return after, x
