"""Train on synthetic, test on real: are generated sequences good for what real ones are used for?

A recurrent network learns, from any set of sequences, to foretell Y_t from X, the contexts and actions up to t, and the
outcomes before t, and is judged on real test sequences (Esteban, Hyland, Rätsch 2017). It is the same network with the
same start, order and size whatever set it learns from: 64 gated recurrent units, Adam at 1e-3, at most 20 epochs,
stopped where a tenth of the set it learns from stops getting better.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from fedloom.evaluation.causal.factual import factual_rows, prediction_rows
from fedloom.evaluation.rows import Row, condition

HIDDEN, EMBEDDING, BATCH, RATE, EPOCHS, PATIENCE = 64, 16, 256, 1e-3, 20, 3
LEAST_STEPS = 40  # of an epoch: with fewer a small set would not even teach how common the outcome is
HELD_OUT = 0.1


@dataclass(frozen=True)
class Sequences:
    """Padded sequences: ``x_NX``, ``a_NLA`` (scaled, no NaN), ``t_NL`` (action ids), ``y_NL``, ``valid_NL``.

    ``client_N`` says whose they are; it plays no part in learning.
    """

    x_NX: Tensor
    a_NLA: Tensor
    t_NL: Tensor
    y_NL: Tensor
    valid_NL: Tensor
    client_N: Tensor

    def of(self, rows_B: Tensor) -> Sequences:
        """Return some of the sequences."""
        return Sequences(**{name: values[rows_B] for name, values in vars(self).items()})


class Predictor(nn.Module):
    """Logit of Y_t from X, A_{1:t}, T_{1:t} and Y_{1:t-1}; ``actions`` is the number of real action ids."""

    def __init__(self, dx: int, da: int, actions: int) -> None:
        super().__init__()
        self.action = nn.Embedding(actions + 1, EMBEDDING)
        self.memory = nn.GRU(dx + da + EMBEDDING + 1, HIDDEN, batch_first=True)
        self.logit = nn.Linear(HIDDEN, 1)

    def forward(self, sequences: Sequences) -> Tensor:
        """Return logits [N, L]."""
        n, longest = sequences.t_NL.shape
        # At the first step there is no outcome to look back at, which is neither a success nor a failure.
        before_NL = torch.cat([torch.zeros(n, 1), 2 * sequences.y_NL[:, :-1] - 1], dim=1)
        x_NLX = sequences.x_NX[:, None].expand(-1, longest, -1)
        inputs = [x_NLX, sequences.a_NLA, self.action(sequences.t_NL), before_NL[..., None]]
        memory_NLH, _ = self.memory(torch.cat(inputs, dim=2))
        logits: Tensor = self.logit(memory_NLH)[..., 0]
        return logits


def train_predictor(learn: Sequences, actions: int, seed: int) -> Predictor:
    """Return the predictor with the least loss on the held-out tenth of ``learn``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Predictor(learn.x_NX.shape[1], learn.a_NLA.shape[2], actions)
        order = torch.randperm(len(learn.t_NL))
        held = max(1, int(HELD_OUT * len(order)))
        kept, stop = order[held:], learn.of(order[:held])
        batch = max(1, min(BATCH, len(kept) // LEAST_STEPS))
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
        best, state, waited = float("inf"), copy.deepcopy(model.state_dict()), 0
        for _ in range(EPOCHS):
            for rows_B in kept[torch.randperm(len(kept))].split(batch):
                optimiser.zero_grad()
                _loss(model, learn.of(rows_B)).backward()
                optimiser.step()
            with torch.no_grad():
                loss = float(_loss(model, stop))
            waited += 1
            if loss < best:
                best, state, waited = loss, copy.deepcopy(model.state_dict()), 0
            if waited >= PATIENCE:
                break
    model.load_state_dict(state)
    return model


def shuffled(sequences: Sequences, seed: int) -> Sequences:
    """Return the sequences with their outcomes dealt anew to all valid steps: nothing is left to be learned."""
    generator = torch.Generator().manual_seed(seed)
    y_NL = sequences.y_NL.clone()
    known = y_NL[sequences.valid_NL]
    y_NL[sequences.valid_NL] = known[torch.randperm(len(known), generator=generator)]
    return replace(sequences, y_NL=y_NL)


@torch.no_grad()
def predict(model: Predictor, asked: Sequences) -> NDArray[np.float64]:
    """Return the probability of the outcome at every valid step of ``asked``, sequence by sequence."""
    parts = [torch.sigmoid(model(asked.of(rows_B))) for rows_B in torch.arange(len(asked.t_NL)).split(4 * BATCH)]
    found: NDArray[np.float64] = torch.cat(parts)[asked.valid_NL].double().numpy()
    return found


def utility_rows(
    source: str, learn: Sequences, test: Sequences, actions: int, clients: Sequence[str], seed: int
) -> list[Row]:
    """Return rows ``tstr_auc`` and ``tstr_rmse`` on ``test`` of the predictor that learned from ``learn``.

    ``source`` names what it learned from: ``synthetic``; ``partly_synthetic`` where x, a and t are real.
    """
    probability_R = predict(train_predictor(learn, actions, seed), test)
    return prediction_rows(probability_R, *_asked(test), clients, "tstr_", condition(source=source))


def reference_rows(real: Sequences, test: Sequences, actions: int, clients: Sequence[str], seed: int) -> list[Row]:
    """Return the rows that those of synthetic sequences are read beside.

    ``source=real`` (what learning from the real training part gives), ``source=shuffled`` (real sequences without their
    signal), ``prediction=half`` and ``prediction=base_rate``.
    """
    rows: list[Row] = []
    for name, learn in {"real": real, "shuffled": shuffled(real, seed)}.items():
        rows += utility_rows(name, learn, test, actions, clients, seed)
    base_rate = float(real.y_NL[real.valid_NL].double().mean())
    outcome_R, client_R = _asked(test)
    constant = factual_rows(outcome_R, outcome_R, client_R, clients, base_rate, "tstr_")
    return rows + [each for each in constant if each["condition"]]


def _asked(test: Sequences) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Outcome and client of every valid step."""
    client_NL = test.client_N[:, None].expand_as(test.t_NL)
    return test.y_NL[test.valid_NL].double().numpy(), client_NL[test.valid_NL].numpy()


def _loss(model: Predictor, sequences: Sequences) -> Tensor:
    logits_NL = model(sequences)
    return binary_cross_entropy_with_logits(logits_NL[sequences.valid_NL], sequences.y_NL[sequences.valid_NL])
