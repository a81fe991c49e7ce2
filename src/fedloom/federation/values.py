"""The values that pass between a method and the engine: what a step is, what a loss gets and gives, what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from fedloom.federation.exchange import Exchange
from fedloom.federation.optim import Optimiser
from fedloom.federation.robust import ServerRule, weighted_mean
from fedloom.federation.stack import Bound, Tensors


class Outcome(NamedTuple):
    """What a loss gives back.

    ``loss`` is a scalar (of one client; [C] for a coupled method). ``buffers`` are new values of client buffers.
    ``means`` are quantities whose mean over the round's samples the engine keeps for ``upload`` and the log.
    """

    loss: Tensor
    buffers: Tensors = {}  # noqa: RUF012 (nobody writes to an outcome)
    means: Tensors = {}  # noqa: RUF012


class Moment(NamedTuple):
    """What a loss may read besides model and batch.

    ``start``: the client's parameters as they were when the phase began (only where ``Step.anchored``).
    ``noise``: the step's random draws by name. ``exchange``: for coupled methods, the way to other clients.
    ``progress``: the share of the rounds that is over. ``server``: for coupled methods, what the server holds; where
    weights are judged, those of them that are not the module's.
    """

    start: Tensors
    noise: Tensors
    exchange: Exchange | None = None
    progress: float = 0.0
    server: Tensors = {}  # noqa: RUF012


@dataclass(frozen=True)
class Noise:
    """A random tensor that a step asks for: ``shape`` per sample of the batch, or a step where not ``per_sample``.

    A word in ``shape`` stands for the task's number of that name (``tokens``: as many as a window has).
    """

    shape: tuple[int | str, ...]
    kind: str = "normal"
    per_sample: bool = True


Loss = Callable[[Bound, Any, Moment], Outcome]


@dataclass(frozen=True)
class Step:
    """One update on every minibatch: ``loss`` over the parameters below the prefixes ``over`` (all, where empty).

    Without an optimiser a step only refreshes buffers and means (statistics). ``repeat`` runs it several times on the
    same minibatch. ``anchored`` gives the loss the parameters from the start of the phase. ``at_server``, for coupled
    methods: what it trains are tensors of the server's, by the sum of all clients' losses; they never start anew.
    ``above`` holds back clients whose loss is no greater: weights, moments and step counts stay as they are.
    ``gradient`` keeps the norm of each client's gradient, before clipping, among the means, by that name.
    """

    loss: Loss
    optimiser: Optimiser | None
    over: tuple[str, ...] = ()
    name: str = "step"
    repeat: int = 1
    anchored: bool = False
    at_server: bool = False
    noise: Mapping[str, Noise] = field(default_factory=dict)
    above: float | None = None
    gradient: str | None = None


@dataclass(frozen=True)
class Phase:
    """One part of a round: who takes part, whether the shared tensors come down before and go up after.

    ``epochs``, ``batches`` and ``participation`` are the protocol's where None. ``round`` and ``progress``, the share
    of the rounds that is over, are filled in by the engine for schedules, and ``whole``, whether every epoch takes all
    samples.
    """

    name: str = "train"
    epochs: int | None = None
    batches: int | None = None
    participation: float | None = None
    download: bool = True
    upload: bool = True
    round: int = 0
    progress: float = 0.0
    whole: bool = True


@dataclass(frozen=True)
class Clients:
    """Some clients of the federation, side by side: ``params`` and ``buffers`` by name, each [c, ...].

    ``positions`` [c] are their places in the federation, ``weights`` [c] their training sample counts, ``means`` the
    means over this phase's samples of what the losses reported, each [c, ...].
    """

    positions: Tensor
    weights: Tensor
    params: Tensors
    buffers: Tensors
    means: Tensors

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def tensors(self) -> Tensors:
        """Parameters and buffers together."""
        return self.params | self.buffers


@dataclass(frozen=True)
class Uploads:
    """What the server received: tensors [c, ...] of the clients that took part, and their sample counts [c].

    ``rule`` is what the protocol puts in the place of the mean; only ``means`` follows it.
    """

    positions: Tensor
    weights: Tensor
    tensors: Tensors
    rule: ServerRule = field(default_factory=ServerRule)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def mean(self, values: Tensor) -> Tensor:
        """Mean over clients of ``values`` [c, ...], weighted by sample counts (FedAvg's w_k)."""
        return weighted_mean(values, self.weights)

    def means(self, values: Tensors, server: Tensors) -> Tensors:
        """One tensor [...] for each of ``values`` [c, ...], by the rule; ``server`` holds what these went out from."""
        return self.rule.combined(values, self.weights, server)
