"""What goes wrong between a client's training and its server: uploads that are lost, late, or garbage.

Every draw is keyed by (seed, round, client) and by nothing else, so that methods and rules meet the same faults, and a
lower rate hits some of those whom a higher one hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from fedloom.federation.randomness import bits, derive, normal, uniform
from fedloom.federation.stack import Tensors, along

HUGE = 1e6  # the standard deviation of garbage that is finite


@dataclass(frozen=True)
class Faults:
    """What happens to uploads, in every phase that has any; what comes down always arrives.

    ``lost``: the chance, for a client in a round, that it trains and goes away before it sends: nothing arrives, and
    nothing is charged. ``late``: the chance that what a client sends is charged but held up, and what it sent ``lag``
    uploads earlier arrives in its place; before it has sent so many, nothing does. ``garbage``: the share of all
    clients, at least one and the same in all rounds, whose every upload is replaced: by NaN, or by ``huge`` numbers,
    normal with deviation 1e6. Both are charged as what they replace.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}  # config files: a misspelt key is an error

    lost: float = 0.0
    late: float = 0.0
    lag: int = 3
    garbage: float = 0.0
    filled_with: Literal["nan", "huge"] = "nan"

    def __post_init__(self) -> None:
        for name in ("lost", "late", "garbage"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"faults.{name}: expected a share in [0, 1], found {getattr(self, name)}")
        if self.lag < 1:
            raise ValueError(f"faults.lag: expected at least 1 upload, found {self.lag}")

    @property
    def any(self) -> bool:
        """Whether anything can go wrong."""
        return max(self.lost, self.late, self.garbage) > 0


class Site(NamedTuple):
    """Where a message is sent: keys [C] of all clients, the positions [c] of those who send, seed, round and phase."""

    keys: Tensor
    rows: Tensor
    seed: int
    round: int
    phase: str

    def hit(self, what: str, chance: float) -> Tensor:
        """Which of the senders a fault with this chance hits, bool [c]."""
        if chance == 0:
            return torch.zeros_like(self.rows, dtype=torch.bool)
        drawn_c = uniform(derive(self.keys[self.rows], self.seed, what, self.round), (), torch.float64)
        return drawn_c < chance


def gone(faults: Faults, site: Site) -> Tensor:
    """Which of the senders go away before they send, bool [c]."""
    return site.hit("lost", faults.lost)


def arriving(faults: Faults, site: Site, sent: Tensors, memory: Tensors) -> tuple[Tensor, Tensors, Tensors]:
    """What reaches the server of ``sent`` [c, ...].

    Returns which senders anything arrives of, bool [c]; messages [c, ...], meaningful there; and the new ``memory``,
    which holds for every client and phase the messages that may yet arrive late: ``sent/{phase}/{name}`` [C, lag, ...],
    the newest first, and ``count/{phase}`` [C], how many it has sent in all.
    """
    present_c = ~gone(faults, site)
    if faults.late:
        late_c = site.hit("late", faults.late)
        if f"count/{site.phase}" not in memory:
            memory = memory | _empty(faults, site, sent)
        queued = {n: memory[f"sent/{site.phase}/{n}"] for n in sent}
        count_C = memory[f"count/{site.phase}"]
        early = {n: queue[site.rows, -1] for n, queue in queued.items()}
        memory = memory | _remembered(site, sent, present_c, queued, count_C)
        present_c &= ~late_c | (count_C[site.rows] >= faults.lag)
        sent = {n: torch.where(along(late_c, value), early[n], value) for n, value in sent.items()}
    if faults.garbage:
        bad_c = garbage_clients(faults, site)[site.rows]
        sent = {n: _replaced(faults, site, n, value, bad_c) for n, value in sent.items()}
    return present_c, sent, memory


def garbage_clients(faults: Faults, site: Site) -> Tensor:
    """Which of all clients send garbage, bool [C]."""
    count = max(1, round(faults.garbage * len(site.keys)))
    words_C = bits(derive(site.keys, site.seed, "garbage"), 1)[:, 0]
    return torch.zeros_like(words_C, dtype=torch.bool).index_fill(0, words_C.argsort()[:count], True)


def _empty(faults: Faults, site: Site, sent: Tensors) -> Tensors:
    """A memory of nothing."""
    clients = len(site.keys)
    queues = {f"sent/{site.phase}/{n}": v.new_zeros((clients, faults.lag, *v.shape[1:])) for n, v in sent.items()}
    return queues | {f"count/{site.phase}": torch.zeros_like(site.keys)}


def _remembered(site: Site, sent: Tensors, present_c: Tensor, queued: Tensors, count_C: Tensor) -> Tensors:
    """What memory holds once those who are present have sent."""
    rows = site.rows[present_c]
    kept = {f"count/{site.phase}": count_C.index_add(0, rows, torch.ones_like(rows))}
    for name, queue in queued.items():
        newest = sent[name][present_c][:, None]
        kept[f"sent/{site.phase}/{name}"] = queue.index_copy(0, rows, torch.cat([newest, queue[rows, :-1]], 1))
    return kept


def _replaced(faults: Faults, site: Site, name: str, value: Tensor, bad_c: Tensor) -> Tensor:
    """A tensor [c, ...] of messages with garbage in the rows of bad clients; whole numbers stay as they are."""
    if not value.is_floating_point() or not bool(bad_c.any()):
        return value
    bad = value[bad_c]
    if faults.filled_with == "nan":
        garbage = torch.full_like(bad, float("nan"))
    else:
        keys = derive(site.keys[site.rows[bad_c]], site.seed, f"garbage in {site.phase}/{name}", site.round)
        garbage = HUGE * normal(keys, tuple(bad.shape[1:]), value.dtype)
    return value.index_copy(0, bad_c.nonzero()[:, 0], garbage)
