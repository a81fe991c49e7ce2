"""A causal model of sequences as mechanisms: a generator for each variable of a step, given its parents.

In every step A_t comes from (X, s_t), T_t from (X, A_t, s_t) and Y_t from (X, A_t, T_t, s_t), s_t being a recurrent
summary of all before it. Each mechanism has a critic of (parents, variable) rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, relu

from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.codes import indicators, static_features
from fedloom.models.layers.gru import StackedGRU
from fedloom.models.layers.steps import drawn_kind, picked_steps, side_by_side

CODE = 16
SLOPE = 0.2


class Mechanism(nn.Module):
    """Generator of a variable from its parents and noise.

    Layers are normalised row by row: statistics of batches would mix units, and do not average over clients.
    """

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)

    def forward(self, *parts: Tensor) -> Tensor:
        full = self.first_norm.weight.dtype  # that of the norms' gradient, whatever products have
        h = relu(self.first_norm(self.first(torch.cat(parts, -1)).to(full)))
        found: Tensor = self.last(relu(self.second_norm(self.second(h).to(full))))
        return found


class Critic(nn.Module):
    """Scores [...] of rows: parents and variable."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, row: Tensor) -> Tensor:
        score: Tensor = self.last(leaky_relu(self.second(leaky_relu(self.first(row), SLOPE)), SLOPE))
        return score[..., 0]

    def gradient(self, row: Tensor) -> Tensor:
        """The score's gradient [..., F] by the row, written out: what its norm teaches needs no second derivative."""
        first = self.first(row)
        second = self.second(leaky_relu(first, SLOPE))
        by_second = torch.where(second > 0, 1.0, SLOPE) * self.last.weight[0]
        return (by_second @ self.second.weight * torch.where(first > 0, 1.0, SLOPE)) @ self.first.weight


class Slice(NamedTuple):
    """Steps picked from sequences, [..., width]: static features, summary, context, action's indicators, outcome."""

    x: Tensor
    summary: Tensor
    a: Tensor
    t: Tensor
    y: Tensor

    @property
    def rows(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Parents and variable of every mechanism, by name."""
        return {
            "context": (torch.cat([self.x, self.summary], -1), self.a),
            "action": (torch.cat([self.x, self.summary, self.a], -1), self.t),
            "outcome": (torch.cat([self.x, self.summary, self.a, self.t], -1), self.y),
        }


class Mechanisms(nn.Module):
    """All mechanisms of one client, their critics and the summary."""

    binary: Tensor
    context: Mechanism
    action: Mechanism
    outcome: Mechanism

    def __init__(self, task: TrajectoryTask, noise: int, summary: int, width: int) -> None:
        super().__init__()
        x, a = task.arrays.x.shape[-1] + sum(task.x_categories), task.arrays.a.shape[-1]
        self.actions, self.x_categories, self.summary = task.actions, task.x_categories, summary
        self.seen = nn.Parameter(torch.randn(task.actions + 1, CODE))
        self.memory = StackedGRU(a + CODE + 1, summary, 1)
        parents = {"context": x + summary, "action": x + summary + a, "outcome": x + summary + a + task.actions}
        widths = {"context": a, "action": task.actions, "outcome": 1}
        for name, inputs in parents.items():
            # An action or an outcome of two kinds needs no noise but that of its draw from the probabilities.
            self.add_module(name, Mechanism(inputs + noise * (name == "context"), width, widths[name]))
            self.add_module(f"{name}_critic", Critic(inputs + widths[name], width))
        self.register_buffer("binary", task.binary.cpu(), persistent=False)

    # -- what is known -------------------------------------------------------------------------------------------

    def static(self, batch: Trajectories) -> Tensor:
        """Static features [B, F], categories as 0/1 columns."""
        return static_features(batch, self.x_categories)

    def happened(self, a: Tensor, t: Tensor, y: Tensor) -> Tensor:
        """What the summary takes in of a step: context [..., Fa], action [...] and outcome [...]."""
        return torch.cat([a, self.seen[t], 2 * y[..., None] - 1], -1)

    def summaries(self, batch: Trajectories) -> Tensor:
        """s_t [B, L, D] of the steps before each: contexts, actions and outcomes."""
        u_TFB = self.happened(batch.a, batch.t, batch.y)[:, :-1].permute(1, 2, 0)
        later = self.memory(u_TFB).permute(2, 0, 1)
        return torch.cat([torch.zeros_like(later[:, :1]), later], 1)

    def after(self, summary: Tensor, a: Tensor, t: Tensor, y: Tensor) -> Tensor:
        """The summary [..., D] with one more step taken in."""
        return self.memory.step(self.happened(a, t, y), (summary,))[0]

    # -- what follows --------------------------------------------------------------------------------------------

    def outcome_logit(self, x: Tensor, summary: Tensor, a: Tensor, t: Tensor) -> Tensor:
        """Logit [...] of the outcome of action ``t`` [...]."""
        logit: Tensor = self.outcome(x, summary, a, indicators(t, self.actions, a.dtype))
        return logit[..., 0]

    def drawn_context(self, x: Tensor, summary: Tensor, z: Tensor) -> Tensor:
        """A context [..., Fa] from noise [..., D]: scaled values, and probabilities of 0/1 columns."""
        drawn = self.context(x, summary, z)
        return torch.where(self.binary, torch.sigmoid(drawn), drawn)

    def next_context(self, x: Tensor, summary: Tensor, z: Tensor) -> Tensor:
        """A context with its 0/1 columns rounded."""
        drawn = self.drawn_context(x, summary, z)
        return torch.where(self.binary, drawn.round(), drawn)

    def forward(self, batch: Trajectories) -> Tensor:
        """Logits of the logged outcomes, [B, L]."""
        x, summary = self._histories(batch)
        return self.outcome_logit(x, summary, batch.a, batch.t)

    def potentials(self, batch: Trajectories, actions: Tensor) -> Tensor:
        """Logits of the outcome under each of ``actions`` [A] at the logged histories, [B, L, A]."""
        x, summary = self._histories(batch)
        under = [self.outcome_logit(x, summary, batch.a, action.expand_as(batch.t)) for action in actions]
        return torch.stack(under, -1)

    def _histories(self, batch: Trajectories) -> tuple[Tensor, Tensor]:
        """Static features and summaries of every step, [B, L, width]."""
        return self.static(batch)[:, None].expand(-1, batch.t.shape[1], -1), self.summaries(batch)

    def simulate(self, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor) -> Tensor:
        """Outcome probabilities [P, B, M, W] under plans from step ``first`` of the logged histories on."""
        known = self.static(batch), self.summaries(batch)[:, first], batch.a[:, first]
        return self.rollout(*side_by_side(plans_PBW, noise, luck, *known))

    def rollout(self, x: Tensor, summary: Tensor, a: Tensor, plan: Tensor, noise: Tensor, luck: Tensor) -> Tensor:
        """Outcome probabilities [..., W] when the actions of ``plan`` [..., W] are taken from here on.

        ``summary`` [..., D] and ``a`` [..., Fa] are those of the first planned step, ``noise`` [..., W, D] and ``luck``
        [..., W] (uniform) draw contexts and outcomes. Probabilities are recorded, not draws.
        """
        recorded = []
        for t, z, u in zip(plan.unbind(-1), noise.unbind(-2), luck.unbind(-1), strict=True):
            p = torch.sigmoid(self.outcome_logit(x, summary, a, t))
            recorded.append(p)
            summary = self.after(summary, a, t, (u < p).to(p.dtype))
            a = self.next_context(x, summary, z)
        return torch.stack(recorded, -1)

    def generate(self, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor) -> Trajectories:
        """Synthetic sequences with the X and length of those in ``batch``, every mechanism drawn in turn."""
        x = self.static(batch)
        summary = x.new_zeros((len(x), self.summary))
        drawn: dict[str, list[Tensor]] = {"a": [], "t": [], "y": []}
        for z, u_t, u_y in zip(noise.unbind(1), luck_t.unbind(1), luck_y.unbind(1), strict=True):
            a = self.next_context(x, summary, z)
            policy = self.action(x, summary, a).softmax(-1)
            t = drawn_kind(policy, u_t)
            y = (u_y < torch.sigmoid(self.outcome_logit(x, summary, a, t))).to(a.dtype)
            for name, value in (("a", a), ("t", t), ("y", y)):
                drawn[name].append(value)
            summary = self.after(summary, a, t, y)
        made = {name: torch.stack(values, 1) for name, values in drawn.items()}
        made["t"] = torch.where(batch.mask > 0, made["t"], self.actions)
        return batch._replace(**made)

    # -- what mechanisms learn from ------------------------------------------------------------------------------

    def picked(self, batch: Trajectories, pick_BP: Tensor) -> tuple[Slice, Tensor]:
        """P steps of every sequence, and how much each counts [B, P]; weights sum to 1 over the steps that exist."""
        at_BP = picked_steps(batch.mask, pick_BP)

        def taken(values: Tensor) -> Tensor:
            return values.gather(1, at_BP[..., None].expand(-1, -1, values.shape[-1]))

        x = self.static(batch)[:, None].expand(-1, at_BP.shape[1], -1)
        t = indicators(batch.t.gather(1, at_BP), self.actions, batch.a.dtype)
        steps = Slice(x, taken(self.summaries(batch)), taken(batch.a), t, batch.y.gather(1, at_BP)[..., None])
        exists = batch.mask.gather(1, at_BP)
        return steps, exists / exists.sum().clamp(min=1)


def softened(logits: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """A draw of one of several kinds [..., K] as weights that have a gradient (Gumbel-softmax)."""
    gumbel = -torch.log(-torch.log(uniform))
    return torch.softmax((logits + gumbel) / temperature, -1)


def softened_binary(logits: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """A draw of 0 or 1 [...] as a number between them that has a gradient."""
    return torch.sigmoid((logits + torch.logit(uniform)) / temperature)


def slopes(critic: Critic, real: Tensor, drawn: Tensor, mix: Tensor) -> Tensor:
    """Norms [...] of the critic's gradient at rows [..., F] between real and drawn ones, ``mix`` [...] of each real.

    WGAN-GP's penalty (Gulrajani et al. 2017, Eq. 3) is their mean squared distance from 1.
    """
    gradient = critic.gradient(mix[..., None] * real + (1 - mix[..., None]) * drawn)
    return (gradient.square().sum(-1) + 1e-12).sqrt()
