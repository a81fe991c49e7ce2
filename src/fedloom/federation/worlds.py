"""What trained world models answer: potentials at logged histories, do-simulations, synthetic sequences.

Each client's sequences are answered by its own weights, all clients in one program. Noise belongs to a sequence (keyed
by its id), so that it is the same for every method, policy, batch and device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from fedloom.federation.method import Method, Moment
from fedloom.federation.randomness import derive, normal, uniform
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask

STEPS_AT_ONCE = 2**18  # client-steps (times draws and policies) that one call holds


class Answers(Protocol):
    """What a method of this family, or its client model, answers with one client's weights.

    ``noise_width`` [D] is how many numbers of noise a simulated step needs, ``potential_draws`` over how many draws a
    potential is a mean: 0 where it is known without any. ``source`` says what ``generate`` draws: contexts and outcomes
    at least (``synthetic``), or outcomes alone (``partly_synthetic``), and is told beside all that is learned from
    them. One that has no ``reads_history`` knows of a logged history no more than its actions. ``batch`` holds B
    sequences of L steps.
    """

    @property
    def noise_width(self) -> int: ...

    @property
    def potential_draws(self) -> int: ...

    @property
    def source(self) -> Literal["synthetic", "partly_synthetic"]: ...

    @property
    def reads_history(self) -> bool: ...

    def potentials(self, model: Bound, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
        """Probability of the outcome under each of ``actions`` [A] at the logged histories, [B, L, A].

        ``noise`` [B, M, L, D] (normal) are M draws, as many as ``potential_draws``, the same for every action. The
        prediction under the logged action finds them as ``moment.noise["potentials"]``.
        """

    def simulate(
        self, model: Bound, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        """Outcome probabilities [P, B, M, W] under do(T = plan) from step ``first`` on.

        ``noise`` [B, M, W, D] (normal) and ``luck`` [B, M, W] (uniform) are those of M draws. What does not read
        history is simulated from its first step on, under the logged actions there, and has noise for these steps
        too: [B, M, ``first`` + W, ...].
        """

    def generate(
        self, model: Bound, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor
    ) -> Trajectories:
        """Synthetic sequences with the X and length of ``batch``; ``noise`` [B, L, D], ``luck_*`` [B, L]."""


def answers_of(method: Method) -> Answers:
    """What answers with a method's weights: its own ``answers``, or its client model."""
    found: Answers = getattr(method, "answers", method.model)
    return found


class World:
    """A method's weights [C, ...] on a task, ready to be asked."""

    def __init__(self, method: Method, skeleton: nn.Module, weights: Tensors, task: TrajectoryTask) -> None:
        self.method, self.answers, self.skeleton = method, answers_of(method), skeleton
        self.weights, self.task = weights, task

    def _every_client(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """``ask(bound, ...)`` of every client on its row of each argument [C, ...]."""

        def one(tensors: Tensors, *own: Any) -> Any:
            return ask(Bound(self.skeleton, tensors), *own)

        with torch.no_grad():
            return torch.vmap(one)(self.weights, *arguments)

    def _batches(
        self, part: str, cost: int, units: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Trajectories]]:
        """Batches of a part: positions [C, B] in the task's arrays, which exist [C, B], the batch.

        With ``units`` only sequences whose position is among them.
        """
        task, members = self.task, self.task.rows[part]
        wanted = members >= 0
        if units is not None:
            wanted &= torch.isin(members, units)
        rows = torch.arange(len(members), device=task.device)
        # Each client's wanted numbers first, then numbers that no client has, which are padding.
        numbers = torch.arange(members.shape[1], device=task.device).where(wanted, members.shape[1]).sort(1).values
        width = max(1, STEPS_AT_ONCE // (cost * len(rows) * task.longest))
        for begin in range(0, int(wanted.sum(1).max()), width):
            chosen = numbers[:, begin : begin + width]
            at, exists = task.positions(part, rows, chosen)
            yield at, exists, task.batch(part, rows, chosen)

    def potentials(self, part: str, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Outcome probabilities [n, L, A + 1] under each of ``actions`` [A] and, last, under the logged action.

        Also the positions [n] of the part's sequences in the task's arrays, in the order of the rows.
        """
        found, places, draws = [], [], self.answers.potential_draws
        for at, exists, batch in self._batches(part, max(1, draws) * (len(actions) + 1)):
            noise, _ = self._noise(at, "potentials", (draws, self.task.longest))
            asked = self._every_client(lambda m, b, z: self.answers.potentials(m, b, actions, z), batch, noise)
            logged = torch.sigmoid(self._every_client(self._logged, batch, noise))
            found.append(torch.cat([asked, logged[..., None]], -1)[exists])
            places.append(at[exists])
        return torch.cat(found), torch.cat(places)

    def _logged(self, model: Bound, batch: Trajectories, noise: Tensor) -> Tensor:
        return self.method.predict(model, batch, Moment({}, {"potentials": noise}))

    def simulate(self, part: str, plans_PW: Tensor, first: int, draws: int, units: Tensor) -> tuple[Tensor, Tensor]:
        """Window means [draws, P, n] of the outcome's probability when each plan is followed from step ``first`` on.

        Only sequences whose position is in ``units`` are simulated; also their positions [n], in the order of rows.
        """
        width = plans_PW.shape[1]
        found, places = [], []
        for at, exists, batch in self._batches(part, draws * len(plans_PW), units):
            noise, luck = self._noise(at, "simulate", (draws, self._lead(first) + width))
            plans = plans_PW[None, :, None].expand(len(at), -1, at.shape[1], -1)
            asked = self._simulated(batch, plans, first, noise, luck)
            found.append(asked.mean(-1).movedim(1, 0)[:, exists].movedim(2, 0))
            places.append(at[exists])
        return torch.cat(found, 2), torch.cat(places)

    def courses(self, part: str, at_N: Tensor, plans_NW: Tensor, width_N: Tensor, first: int, draws: int) -> Tensor:
        """Outcome probabilities [N, W], means over ``draws``, when sequences follow plans of their own.

        Sequence ``at_N[i]`` (a position in the task's arrays; it may come more than once) follows ``plans_NW[i]`` for
        ``width_N[i]`` steps from step ``first`` on; NaN beyond. Noise is the sequence's own, whatever the plan.
        """
        task, members = self.task, self.task.rows[part]
        client_N, number_N = (torch.empty(len(task.units), dtype=torch.int64, device=task.device) for _ in range(2))
        row, column = (members >= 0).nonzero(as_tuple=True)
        client_N[members[row, column]], number_N[members[row, column]] = row, column
        found = torch.full(plans_NW.shape, torch.nan, dtype=task.dtype, device=task.device)
        # Clients side by side, each one's long courses first, so that no batch is longer than it must be.
        order = torch.argsort(client_N[at_N] * (plans_NW.shape[1] + 1) - width_N)
        counts = torch.bincount(client_N[at_N], minlength=len(members))
        item_CK = torch.nn.utils.rnn.pad_sequence(
            list(order.split(counts.tolist())), batch_first=True, padding_value=-1
        )
        rows = torch.arange(len(members), device=task.device)
        size = max(1, STEPS_AT_ONCE // (draws * len(members) * task.longest))
        for item_CB in item_CK.split(size, 1):
            item = item_CB.clamp(min=0)
            batch_numbers = number_N[at_N[item]].where(item_CB >= 0, members.shape[1])
            at, exists = task.positions(part, rows, batch_numbers)
            width = int(width_N[item][exists].max())
            noise, luck = self._noise(at, "simulate", (draws, self._lead(first) + plans_NW.shape[1]))
            batch, steps = task.batch(part, rows, batch_numbers), self._lead(first) + width
            plans = plans_NW[item, :width][:, None]
            asked = self._simulated(batch, plans, first, noise[..., :steps, :], luck[..., :steps])
            found[item_CB[exists], :width] = asked[:, 0].mean(-2)[exists]
        beyond = torch.arange(plans_NW.shape[1], device=task.device) >= width_N[:, None]
        return found.masked_fill(beyond, torch.nan)

    def _lead(self, first: int) -> int:
        """Steps before a window that are simulated too."""
        return 0 if self.answers.reads_history else first

    def _simulated(self, batch: Trajectories, plans_CPBW: Tensor, first: int, noise: Tensor, luck: Tensor) -> Tensor:
        """Outcome probabilities [C, P, B, M, W] under plans of every sequence of ``batch``, by the same noise."""
        return self._every_client(
            lambda m, b, plan, z, u: self.answers.simulate(m, b, plan, first, z, u), batch, plans_CPBW, noise, luck
        )

    def generate(self, part: str, units: Tensor | None = None) -> tuple[Trajectories, Tensor]:
        """Synthetic sequences, one in place of each of the part's, and the positions [n] of those in the task's arrays.

        With ``units`` only in place of sequences whose position is among them.
        """
        made, places = [], []
        for at, exists, batch in self._batches(part, 1, units):
            noise, luck = self._noise(at, "generate", (self.task.longest,))
            chance = self._noise(at, "actions", (self.task.longest,))[1]
            drawn = self._every_client(self.answers.generate, batch, noise, chance, luck)
            made.append(Trajectories(*(values[exists] for values in drawn)))
            places.append(at[exists])
        return Trajectories(*(torch.cat(values) for values in zip(*made, strict=True))), torch.cat(places)

    def _noise(self, at_CB: Tensor, site: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Normal [C, B, *shape, D] and uniform [C, B, *shape] draws that belong to the sequences."""
        keys = derive(self.task.units[at_CB.flatten()], site)
        dtype, lead = self.task.dtype, at_CB.shape
        z = normal(derive(keys, "latent"), (*shape, self.answers.noise_width), dtype)
        u = uniform(derive(keys, "outcome"), shape, dtype)
        return z.reshape(*lead, *z.shape[1:]), u.reshape(*lead, *u.shape[1:])
