"""Which class a recording belongs to, after one epoch on labelled ones; the same after ten, beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from fedloom.evaluation.rows import Row, condition, row
from fedloom.evaluation.series.finetune import Adaptation, Start, learn, zero_linear
from fedloom.evaluation.series.targets import Channel
from fedloom.evaluation.series.windows import spread
from fedloom.federation.masking import token_seen
from fedloom.federation.tasks.series import SeriesWindows

EPOCHS = (1, 10)
"""One is the protocol. Of the small sets it is a handful of steps, hence ten beside it."""

CASES_AT_ONCE = 16
CHANNELS, PIECES = 16, 4
"""Channels of a case that are read, evenly chosen, and windows of a channel, the latest."""


@dataclass(frozen=True)
class Cases:
    """Recordings: windows [N, W, L] (of all channels, 0 where ``seen`` is 0) and classes [N]."""

    x: Tensor
    seen: Tensor
    label: Tensor

    def of(self, some: Tensor) -> Cases:
        """Return some of them."""
        chosen = some.to(self.x.device)
        return Cases(self.x[chosen], self.seen[chosen], self.label[chosen])


class Classifier(nn.Module):
    """A run's model under a new head: the mean over a case's tokens and channels, to classes. The head starts at 0."""

    def __init__(self, start: Start, classes: int) -> None:
        super().__init__()
        self.start, self.body = start, start.model()
        self.head = zero_linear(start.width, classes, next(iter(self.body.parameters())))

    def forward(self, cases: Cases) -> Tensor:
        """Return logits [N, classes]."""
        x, seen = cases.x.flatten(0, 1), cases.seen.flatten(0, 1)
        n = x.shape[1] // self.start.patch
        hidden = torch.zeros(len(x), n, dtype=torch.bool, device=x.device)
        tokens, _, _ = self.start.represent(self.body, SeriesWindows(x, seen, hidden, x.new_ones(len(x))))
        there = token_seen(seen, n).to(x.dtype).unflatten(0, cases.x.shape[:2])
        read = tokens.unflatten(0, cases.x.shape[:2]) * there[..., None]
        logits: Tensor = self.head(read.sum((1, 2)) / there.sum((1, 2)).clamp(min=1)[:, None])
        return logits


def class_rows(start: Start, sets: Mapping[str, Sequence[Channel]], settings: Adaptation) -> list[Row]:
    """Return ``accuracy`` on the test cases of each set by epochs, beside always naming the commonest class."""
    rows: list[Row] = []
    for name, channels in sets.items():
        train, test = (cases(channels, part, start.length, settings.windows) for part in ("train", "test"))
        classes = int(max(train.label.max(), test.label.max())) + 1
        model = Classifier(start, classes)

        def loss(some: Tensor, model: Classifier = model, train: Cases = train) -> Tensor:
            own = train.of(some)
            return cross_entropy(model(own), own.label)

        # A batch of cases is already many windows.
        small = replace(settings, batch=CASES_AT_ONCE, epochs=max(EPOCHS))
        groups = [(list(model.body.parameters()), settings.lr), (list(model.head.parameters()), settings.head_lr)]
        for epoch in learn(groups, loss, len(train.label), f"classes/{name}", start.seed, small):
            if epoch in EPOCHS:
                under = condition(task="classification", target=name, epochs=epoch)
                rows.append(row("accuracy", _accuracy(model, test), len(test.label), under, unit="mean"))
        commonest = int(train.label.bincount().argmax())
        share = float((test.label == commonest).double().mean())
        under = condition(task="classification", target=name, prediction="commonest")
        rows.append(row("accuracy", share, len(test.label), under, unit="mean"))
    return rows


def cases(channels: Sequence[Channel], part: str, length: int, most: int) -> Cases:
    """Return the cases of a part, at most ``most``, evenly chosen: their latest windows, padded on the left."""
    by_case: dict[str, list[Channel]] = {}
    for channel in channels:
        if (channel.test == 0) == (part == "test"):
            by_case.setdefault(channel.case, []).append(channel)
    every = list(by_case.values())
    chosen = [every[i] for i in spread(0, len(every), most)]
    pieces = max(min(PIECES, -(-len(c.values) // length)) for case in chosen for c in case)
    past = torch.stack([torch.cat([_pieces(c.values, length, pieces) for c in _some(case)]) for case in chosen])
    label = torch.tensor([int(case[0].label[0]) if case[0].label is not None else 0 for case in chosen])
    return Cases(past.nan_to_num(0.0), (~past.isnan()).to(past.dtype), label.to(past.device))


def _some(case: Sequence[Channel]) -> list[Channel]:
    return [case[i] for i in spread(0, len(case), CHANNELS)]


def _pieces(values_T: Tensor, length: int, pieces: int) -> Tensor:
    """The latest ``pieces`` windows [pieces, length] of a channel."""
    latest = values_T[-pieces * length :]
    return pad(latest, (pieces * length - len(latest), 0), value=torch.nan).view(pieces, length)


@torch.no_grad()
def _accuracy(model: Classifier, test: Cases) -> float:
    right = 0
    for some in torch.arange(len(test.label)).split(CASES_AT_ONCE):
        own = test.of(some)
        right += int((model(own).argmax(1) == own.label).sum())
    return right / len(test.label)
