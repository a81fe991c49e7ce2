"""Training of the oracle: an LSTM that traces knowledge (Piech et al., "Deep knowledge tracing", 2015).

Their network is a plain recurrent one of 400 units; this is an LSTM of 64 that also sees the student's covariates.
The result is made once and shipped; this module is what made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedloom.data.trajectories.dkt.simulator import Items, Students, draw_items, simulate


@dataclass(frozen=True)
class Recipe:
    """How the oracle is trained. The values are those of the shipped one."""

    seed: int = 3  # its anchors are of two concepts, so effects differ, and its first covariate tells little of either
    train: int = 10_000  # students
    validation: int = 2_000
    length: int = 50
    items: int = 50
    epochs: int = 12
    batch: int = 256
    learning_rate: float = 3e-3
    clip: float = 1.0
    embedding: int = 32
    width: int = 64


@dataclass(frozen=True)
class Epoch:
    """What one epoch left behind: mean training loss (nats an answer) and AUC of the next answer on validation."""

    number: int
    loss: float
    auc: float


class Tracer(nn.Module):
    """p(answer of any item at step t) from covariates and the items and answers before t.

    The inputs of the LSTM at step t are an embedding of (item + J * answer) of step t - 1, row 2J where there is none
    yet, and the covariates; its state and the covariates give one logit an item.
    """

    def __init__(self, items: int, covariates: int, embedding: int, width: int) -> None:
        """Draw initial weights from torch's generator."""
        super().__init__()
        self.items = items
        self.embedding = nn.Embedding(2 * items + 1, embedding)
        self.lstm = nn.LSTM(embedding + covariates, width, batch_first=True)
        self.head = nn.Linear(width + covariates, items)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
        """Return logits [N, L, J]: entry (t, j) is for item j at step t and uses nothing of step t or later.

        x [N, dx] covariates, t and y [N, L] items and answers (int64).
        """
        before = torch.cat([torch.full_like(t[:, :1], 2 * self.items), (t + self.items * y)[:, :-1]], dim=1)
        x_steps = x[:, None].expand(-1, t.shape[1], -1)
        hidden, _ = self.lstm(torch.cat([self.embedding(before), x_steps], dim=-1))
        logits: Tensor = self.head(torch.cat([hidden, x_steps], dim=-1))
        return logits


def auc(score: NDArray[np.float32], label: NDArray[np.int64]) -> float:
    """Return the chance that a random 1 scores above a random 0, ties counted half."""
    order = np.argsort(score, kind="stable")
    _, inverse, count = np.unique(score[order], return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[inverse]
    positive = label[order] == 1
    n1, n0 = positive.sum(), (~positive).sum()
    return float((rank[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def train(recipe: Recipe) -> Iterator[tuple[Epoch, Tracer]]:
    """Train a tracer; yield after every epoch what it reached and the tracer itself, which then goes on changing."""
    items = draw_items(recipe.seed, recipe.items)
    students = np.arange(recipe.train + recipe.validation)
    records = simulate(items, recipe.seed, students, recipe.length)
    x, t, y = _tensors(records)
    torch.manual_seed(recipe.seed)
    model = Tracer(recipe.items, x.shape[1], recipe.embedding, recipe.width)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    for number in range(1, recipe.epochs + 1):
        losses = []
        for rows in torch.randperm(recipe.train).split(recipe.batch):
            logits = model(x[rows], t[rows], y[rows]).gather(2, t[rows][..., None])[..., 0]
            loss = functional.binary_cross_entropy_with_logits(logits, y[rows].to(logits))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimiser.step()
            losses.append(loss.item())
        yield Epoch(number, float(np.mean(losses)), _validate(model, x, t, y, recipe)), model


def weights(model: Tracer, items: Items) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of an oracle file (float32): the network's, and what the world keeps of the simulator."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    arrays = {
        "embedding": state["embedding.weight"],
        "input": state["lstm.weight_ih_l0"],
        "recurrent": state["lstm.weight_hh_l0"],
        "bias": state["lstm.bias_ih_l0"] + state["lstm.bias_hh_l0"],
        "head": state["head.weight"],
        "head_bias": state["head.bias"],
    }
    kept = {"difficulty": items.difficulty, "mixing": items.mixing}
    return arrays | {name: array.astype(np.float32) for name, array in kept.items()}


def _tensors(records: Students) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(records.x).float(), torch.from_numpy(records.t), torch.from_numpy(records.y)


@torch.no_grad()
def _validate(model: Tracer, x: Tensor, t: Tensor, y: Tensor, recipe: Recipe) -> float:
    rows = slice(recipe.train, None)
    logits = model(x[rows], t[rows], y[rows]).gather(2, t[rows][..., None])[..., 0]
    return auc(logits.numpy().ravel(), y[rows].numpy().ravel())
