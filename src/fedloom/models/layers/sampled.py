"""What generators of whole sequences share: the scale they draw in, what they are told, and how they answer do(T = a).

A generator is told X and the actions, and draws contexts and outcomes from noise. It has no place for a logged context
or outcome: of a logged history it knows the actions alone. A potential is the mean over draws of the outcome that it
draws after the logged actions before a step and the asked one at it; a simulation draws a sequence from its first step
on, under the logged actions before the window and the plan's inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from fedloom.errors import InputError
from fedloom.federation.method import Clients, Moment
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.task import Validation
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.federation.worlds import World
from fedloom.models.layers.matching import sample_mmd
from fedloom.models.layers.steps import masked_mean

CODE = 16  # width of every table of ids
REACH = 4.0  # scaled contexts within so many standard deviations are drawn; what lies beyond, little, is cut
VALIDATED = 256  # sequences of a client whose pairs are compared at validation
SUREST = 1e-3  # a mean over few draws is held to be no surer than this: the score of a certain error has no bound


class Given(nn.Module):
    """What a net is told of X and an action: scaled features, the sum of the categories' codes, the action's code."""

    def __init__(self, task: TrajectoryTask) -> None:
        super().__init__()
        self.static = nn.ParameterList(nn.Parameter(0.1 * torch.randn(n, CODE)) for n in task.x_categories)
        self.action = nn.Parameter(torch.randn(task.actions + 1, CODE))
        self.width = task.arrays.x.shape[-1] + (CODE if task.x_categories else 0) + CODE

    def of_static(self, batch: Trajectories) -> Tensor:
        """The code of X, [B, S]."""
        codes = [table[batch.x_code[..., i]] for i, table in enumerate(self.static)]
        return torch.cat([batch.x, torch.stack(codes).sum(0)], -1) if codes else batch.x

    def forward(self, batch: Trajectories) -> Tensor:
        """Of every step, [B, L, width]."""
        return self.at(self.of_static(batch)[:, None], batch.t)

    def at(self, static: Tensor, t: Tensor) -> Tensor:
        """Of actions [...] and static codes that broadcast over them."""
        return torch.cat([static.expand(*t.shape, -1), self.action[t]], -1)


class Drawn(nn.Module):
    """The scale in which contexts and outcomes are drawn: every number of a step in [0, 1], outcomes last."""

    binary: Tensor

    def __init__(self, task: TrajectoryTask) -> None:
        super().__init__()
        self.register_buffer("binary", task.binary.cpu(), persistent=False)

    def forward(self, batch: Trajectories) -> Tensor:
        """The real ones, [B, L, F]."""
        a = torch.where(self.binary, batch.a, (batch.a / REACH + 1) / 2)
        return torch.cat([a, batch.y[..., None]], -1).clamp(0, 1)

    def read(self, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts [..., Fa] in the task's scale, 0/1 columns rounded, and outcome probabilities [...]."""
        a = drawn[..., :-1]
        return torch.where(self.binary, a.round(), (2 * a - 1) * REACH), drawn[..., -1]


def read_out(memory: nn.Module, leave: nn.Module, u_KBLF: Tensor) -> Tensor:
    """What ``leave`` makes of every state of ``memory`` [K, B, L, outputs], run over K kinds of the same sequences."""
    found: Tensor = leave(memory(u_KBLF.flatten(0, 1).permute(1, 2, 0)).permute(2, 0, 1))
    return found.unflatten(0, u_KBLF.shape[:2])


class Generator(Protocol):
    """A net that draws step by step; any number of axes stand in front of every last one."""

    drawn: Drawn

    def told(self, batch: Trajectories) -> Tensor:
        """What it is told of X, [B, S]."""

    def begin(self, like: Tensor) -> tuple[Tensor, ...]:
        """The state before a first step; ``like`` [..., D] has the noise's rows, type and device."""

    def advance(
        self, state: tuple[Tensor, ...], static: Tensor, t: Tensor, z: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """The state after a step of action ``t`` [...] and noise [..., D], and what is drawn there [..., F]."""


def called(logits_BL: Tensor, real: float, mask_BL: Tensor) -> Tensor:
    """Cross-entropy of calling sequences ``real`` (1) or not (0), a mean over the steps that exist."""
    wanted = torch.full_like(logits_BL, real)
    return masked_mean(binary_cross_entropy_with_logits(logits_BL, wanted, reduction="none"), mask_BL)


def told_apart(real_BL: Tensor, drawn_BL: Tensor, mask_BL: Tensor) -> Tensor:
    """Share of steps that a discriminator's logits call rightly, half of them real."""
    right = (real_BL > 0).to(mask_BL.dtype) + (drawn_BL < 0).to(mask_BL.dtype)
    return masked_mean(right, mask_BL) / 2


class Sampled:
    """A method whose net is a ``Generator``, as a world: the answers of all such methods."""

    params: Any  # with ``noise``, the width of a step's noise, and ``draws``, over how many a potential is a mean

    @property
    def answers(self) -> Sampled:
        """The method itself answers."""
        return self

    @property
    def noise_width(self) -> int:
        """Numbers of noise that a drawn step needs."""
        width: int = self.params.noise
        return width

    @property
    def potential_draws(self) -> int:
        """Draws that a potential is a mean over."""
        draws: int = self.params.draws
        return draws

    @property
    def source(self) -> Literal["synthetic", "partly_synthetic"]:
        """Contexts and outcomes are drawn; X, actions and lengths are those of a real sequence, together."""
        return "synthetic"

    @property
    def reads_history(self) -> bool:
        """Nothing but the actions of a logged history is known."""
        return False

    def predict(self, model: Bound, batch: Trajectories, moment: Moment) -> Tensor:
        """Logits of the logged outcomes [B, L], means over the draws in ``moment.noise``."""
        return model(batch, moment.noise["potentials"], method=_logged)

    def potentials(self, model: Bound, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
        """Probability of the outcome [B, L, A] after the logged actions before a step and each of ``actions`` at it."""
        return model(batch, actions, noise, method=_potentials)

    def simulate(
        self, model: Bound, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        """Outcome probabilities [P, B, M, W] when drawn under the logged actions before ``first``, then the plans'."""
        return model(batch, plans_PBW, first, noise, method=_simulated)

    def generate(
        self, model: Bound, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor
    ) -> Trajectories:
        """Sequences with the X, actions and lengths of ``batch``, contexts and outcomes drawn."""
        return model(batch, noise, luck_y, method=_generated)

    def validated(self: Any, task: TrajectoryTask, skeleton: nn.Module, weights: Tensors) -> Validation:
        """Squared MMD of each client's drawn contexts and outcomes from its real ones, weighed by their sequences.

        A generator is chosen by what it draws (Esteban et al. 2017, Sec. 4.1.1), not by a cross-entropy that it never
        learned to make small. NaN for clients with fewer than two sequences; InputError where all are.
        """
        own = task.rows["validation"][:, :VALIDATED]
        made, at = World(self, skeleton, weights, task).generate("validation", own[own >= 0])
        scale = Drawn(task).to(task.device)

        def flat(batch: Trajectories) -> Tensor:
            return (scale(batch) * batch.mask[..., None]).flatten(1).double()

        real, drawn = flat(Trajectories(*(values[at] for values in task.arrays))), flat(made)
        apart, size = torch.full((2, len(own)), torch.nan, dtype=torch.float64)
        for client, rows in enumerate(own):
            member = torch.isin(at, rows[rows >= 0])
            size[client] = member.sum()
            if size[client] > 1:
                apart[client] = sample_mmd(real[member], drawn[member])
        judged = size > 1
        if not bool(judged.any()):
            raise InputError("validation part: expected a client with at least 2 sequences, found none")
        score = (apart * size)[judged].sum() / size[judged].sum()
        return Validation(float(score), {"validation_mmd": apart}, bounded=True)

    def round_log(self, server: dict[str, Tensor], clients: Clients) -> dict[str, float]:
        """How the nets' contest goes: what the losses reported, a mean over the clients' samples."""
        share = clients.weights / clients.weights.sum()
        return {name: float((share * mean).sum()) for name, mean in clients.means.items()}


def _surely(chance: Tensor) -> Tensor:
    return chance.clamp(SUREST, 1 - SUREST)


def _walk(
    net: Generator, batch: Trajectories, noise: Tensor, look: Callable[[int, tuple[Tensor, ...], Tensor], Tensor] | None
) -> list[Tensor]:
    """What ``look`` sees of every step before it is taken under the logged action, or else what is drawn there."""
    static = net.told(batch).view(len(batch.t), *[1] * (noise.dim() - 3), -1)
    state, seen = net.begin(noise[..., 0, :]), []
    for step, z in enumerate(noise.unbind(-2)):
        if look is not None:
            seen.append(look(step, state, static))
        t = batch.t[:, step].view(-1, *[1] * (z.dim() - 2)).expand(z.shape[:-1])
        state, drawn = net.advance(state, static, t, z)
        if look is None:
            seen.append(drawn)
    return seen


def _logged(net: Generator, batch: Trajectories, noise: Tensor) -> Tensor:
    chance = torch.stack(_walk(net, batch, noise, None), -2)[..., -1].mean(1)
    return torch.logit(_surely(chance))


def _potentials(net: Generator, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
    rows = noise.shape[:2]

    def asked(step: int, state: tuple[Tensor, ...], static: Tensor) -> Tensor:
        z = noise[:, :, step]
        under = [net.advance(state, static, a.expand(rows), z)[1][..., -1].mean(1) for a in actions]
        return torch.stack(under, -1)

    return _surely(torch.stack(_walk(net, batch, noise, asked), 1))


def _simulated(net: Generator, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor) -> Tensor:
    static = net.told(batch)[:, None]
    state = net.begin(noise[..., 0, :])
    for step in range(first):
        t = batch.t[:, step, None].expand(noise.shape[:2])
        state, _ = net.advance(state, static, t, noise[:, :, step])
    shape = (len(plans_PBW), *noise.shape[:2])
    state = tuple(part.expand(*shape, -1) for part in state)
    recorded = []
    for step, t in enumerate(plans_PBW.unbind(-1)):
        z = noise[:, :, first + step].expand(*shape, -1)
        state, drawn = net.advance(state, static, t[..., None].expand(shape), z)
        recorded.append(drawn[..., -1])
    return torch.stack(recorded, -1)


def _generated(net: Generator, batch: Trajectories, noise: Tensor, luck_y: Tensor) -> Trajectories:
    a, chance = net.drawn.read(torch.stack(_walk(net, batch, noise, None), 1))
    return batch._replace(a=a * batch.mask[..., None], y=(luck_y < chance).to(a.dtype) * batch.mask)
