"""Balanced recurrent networks: a state that foretells outcomes under any action but not which action was chosen.

Encoder and decoder of counterfactual recurrent networks (Bica et al. 2020, Sec. 5): the encoder reads a history, the
decoder starts from the encoder's representation and foretells a plan's outcomes one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.codes import indicators, static_features
from fedloom.models.layers.latent import ALIGNED
from fedloom.models.layers.lstm import gated
from fedloom.models.layers.matching import reversed_gradient

MOST_ONE_HOT, EMBEDDING = 64, 16


@dataclass(frozen=True)
class Widths:
    """Sizes of encoder and decoder; the decoder's state is as wide as what the encoder starts it from."""

    hidden: int
    balanced: int
    decoder_balanced: int
    inner: int


class BalancedLSTM(nn.Module):
    """LSTM, balanced representation, outcome head and action head (Bica et al. 2020, Fig. 3)."""

    def __init__(self, inputs: int, hidden: int, balanced: int, inner: int, action: int, groups: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))

        self.weight_ih, self.weight_hh = uniform(4 * hidden, inputs), uniform(4 * hidden, hidden)
        self.bias_ih, self.bias_hh = uniform(4 * hidden), uniform(4 * hidden)
        self.balance = nn.Linear(hidden, balanced)
        self.outcome_inner, self.outcome_outer = nn.Linear(balanced + action, inner), nn.Linear(inner, 1)
        self.action_inner, self.action_outer = nn.Linear(balanced, inner), nn.Linear(inner, groups)

    def gates(self, u: Tensor) -> Tensor:
        """The input's part of the gates, [..., 4D], of inputs [..., F]."""
        return u @ self.weight_ih.T + self.bias_ih

    def step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The next (h, c) [..., D] from a step's input gates [..., 4D] and the ones before; gates in torch's order."""
        return gated(gates + h @ self.weight_hh.T + self.bias_hh, c)

    def represent(self, h: Tensor) -> Tensor:
        """Balanced representations [..., R] of states [..., D]."""
        return elu(self.balance(h))

    def forward(self, u: Tensor, start: Tensor, keep_state: Tensor | None, keep_output: Tensor | None) -> Tensor:
        """Representations [..., T, R] from inputs [..., T, F] and ``start`` [..., D], which is both h and c.

        ``keep_*`` [..., D] are dropout's factors, one mask for all steps of a sequence (Gal and Ghahramani 2016).
        """
        h = c = start
        states = []
        for gates in self.gates(u).unbind(-2):
            h, c = self.step(gates, h if keep_state is None else h * keep_state, c)
            states.append(h)
        found = torch.stack(states, -2)
        return self.represent(found if keep_output is None else found * keep_output.unsqueeze(-2))

    def outcome(self, balanced: Tensor, action: Tensor) -> Tensor:
        """Logit [...] of the outcome under an action's code [..., E]."""
        logit: Tensor = self.outcome_outer(elu(self.outcome_inner(torch.cat([balanced, action], -1))))
        return logit[..., 0]

    def chosen(self, balanced: Tensor, strength: float) -> Tensor:
        """Logits [..., G] of the chosen action's group; the representation learns to hide it."""
        logits: Tensor = self.action_outer(elu(self.action_inner(reversed_gradient(balanced, strength))))
        return logits


class CounterfactualRecurrent(nn.Module):
    """Encoder of histories and decoder of plans of one client."""

    grouped: Tensor

    def __init__(self, task: TrajectoryTask, widths: Widths) -> None:
        super().__init__()
        self.actions, self.x_categories = task.actions, task.x_categories
        many = task.actions > MOST_ONE_HOT
        action = EMBEDDING if many else task.actions
        tables = [nn.Parameter(torch.randn(task.actions + 1, EMBEDDING))] if many else []
        self.table = nn.ParameterList(tables)  # codes of actions where they are too many to be one-hot
        w, groups = widths, ALIGNED + 1
        inputs = task.arrays.x.shape[-1] + sum(task.x_categories) + action + 1
        context = task.arrays.a.shape[-1]
        self.encoder = BalancedLSTM(inputs + context, w.hidden, w.balanced, w.inner, action, groups)
        self.decoder = BalancedLSTM(inputs, w.balanced, w.decoder_balanced, w.inner, action, groups)
        common, anchors = task.common.cpu(), torch.tensor(task.anchors)
        grouped = torch.cat([anchors, common[(common[:, None] != anchors).all(1)]])[:ALIGNED]
        self.register_buffer("grouped", grouped, persistent=False)

    def action(self, t: Tensor) -> Tensor:
        """Code [..., E] of actions; zeros for the padding id where codes are one-hot."""
        if len(self.table):
            return self.table[0][t]
        return indicators(t, self.actions, self.encoder.weight_ih.dtype)

    def static(self, batch: Trajectories) -> Tensor:
        """Static features [B, F], categories as 0/1 columns."""
        return static_features(batch, self.x_categories)

    def group(self, t: Tensor) -> Tensor:
        """The group [...] of actions: each anchor, the most frequent others, all the rest."""
        same = t[..., None] == self.grouped
        return torch.where(same.any(-1), same.to(torch.uint8).argmax(-1), len(self.grouped))

    def encode(
        self, batch: Trajectories, keep_state: Tensor | None = None, keep_output: Tensor | None = None
    ) -> Tensor:
        """Representations [B, L, R] of what is known before each action: X, A_<=t, T_<t, Y_<t."""
        past_t = torch.cat([torch.full_like(batch.t[:, :1], self.actions), batch.t[:, :-1]], 1)
        past_y = torch.cat([torch.zeros_like(batch.y[:, :1]), 2 * batch.y[:, :-1] - 1], 1)
        x = self.static(batch)[:, None].expand(-1, batch.t.shape[1], -1)
        u = torch.cat([past_y[..., None], x, self.action(past_t), batch.a], -1)
        start = u.new_zeros((len(u), self.encoder.weight_hh.shape[-1]))
        found: Tensor = self.encoder(u, start, keep_state, keep_output)
        return found

    def forward(self, batch: Trajectories) -> Tensor:
        """Logits of the logged outcomes, [B, L]."""
        return self.encoder.outcome(self.encode(batch), self.action(batch.t))

    def potentials(self, batch: Trajectories, actions: Tensor) -> Tensor:
        """Logits of the outcome under each of ``actions`` [A] at the logged histories, [B, L, A]."""
        balanced = self.encode(batch)
        return torch.stack([self.encoder.outcome(balanced, self.action(a.expand_as(batch.t))) for a in actions], -1)

    def simulate(self, batch: Trajectories, plans_PBW: Tensor, first: int) -> Tensor:
        """Outcome probabilities [P, B, W] under plans from step ``first`` of the logged histories on."""
        known = self.encode(batch)[:, first], self.static(batch)
        balanced, x = (part.expand(len(plans_PBW), *part.shape) for part in known)
        return self.rollout(balanced, x, plans_PBW)

    def rollout(self, balanced: Tensor, x: Tensor, plan: Tensor) -> Tensor:
        """Outcome probabilities [..., W] under ``plan`` [..., W] from representations [..., R] and static [..., F].

        The encoder foretells the first step, the decoder the others, each from what it said of the one before.
        """
        h = c = balanced
        p = torch.sigmoid(self.encoder.outcome(balanced, self.action(plan[..., 0])))
        found = [p]
        for before, now in zip(plan.unbind(-1)[:-1], plan.unbind(-1)[1:], strict=True):
            u = torch.cat([(2 * p - 1)[..., None], x, self.action(before)], -1)
            h, c = self.decoder.step(self.decoder.gates(u), h, c)
            p = torch.sigmoid(self.decoder.outcome(self.decoder.represent(h), self.action(now)))
            found.append(p)
        return torch.stack(found, -1)

    def relived(self, batch: Trajectories, luck_BL: Tensor) -> Trajectories:
        """The sequences with outcomes drawn anew, each from what was drawn before it; X, A and T stay real."""
        x, past_y = self.static(batch), torch.zeros_like(batch.y[:, 0])
        past_t = torch.full_like(batch.t[:, 0], self.actions)
        h = c = x.new_zeros((len(x), self.encoder.weight_hh.shape[-1]))
        drawn = []
        for a, t, u in zip(batch.a.unbind(1), batch.t.unbind(1), luck_BL.unbind(1), strict=True):
            gates = self.encoder.gates(torch.cat([past_y[..., None], x, self.action(past_t), a], -1))
            h, c = self.encoder.step(gates, h, c)
            p = torch.sigmoid(self.encoder.outcome(self.encoder.represent(h), self.action(t)))
            y = (u < p).to(p.dtype)
            drawn.append(y)
            past_y, past_t = 2 * y - 1, t
        return batch._replace(y=torch.stack(drawn, 1))
