"""The contract that every method fills, and the values that pass through it.

A method says, in this order: what one client computes (``client``), how it learns (``phases``, ``steps``, ``loss``),
what it shares (``shared``, ``upload``), what the server does (``server``, ``aggregate``, ``serve``, ``download``) and
which weights are judged (``evaluated``). Everything but ``client`` has a default. Nothing here knows a method's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from fedloom.federation.exchange import Exchange
from fedloom.federation.optim import Optimiser
from fedloom.federation.stack import Bound, Tensors, matching


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
    ``progress``: the share of the rounds that is over.
    """

    start: Tensors
    noise: Tensors
    exchange: Exchange | None = None
    progress: float = 0.0


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
    same minibatch. ``anchored`` gives the loss the parameters from the start of the phase.
    """

    loss: Loss
    optimiser: Optimiser | None
    over: tuple[str, ...] = ()
    name: str = "step"
    repeat: int = 1
    anchored: bool = False
    noise: Mapping[str, Noise] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """One part of a round: who takes part, whether the shared tensors come down before and go up after.

    ``epochs``, ``batches`` and ``participation`` are the protocol's where None. ``round`` and ``progress``, the share
    of the rounds that is over, are filled in by the engine for schedules.
    """

    name: str = "train"
    epochs: int | None = None
    batches: int | None = None
    participation: float | None = None
    download: bool = True
    upload: bool = True
    round: int = 0
    progress: float = 0.0


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
    """What the server received: tensors [c, ...] of the clients that took part, and their sample counts [c]."""

    positions: Tensor
    weights: Tensor
    tensors: Tensors

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def mean(self, values: Tensor) -> Tensor:
        """Mean over clients of ``values`` [c, ...], weighted by sample counts (FedAvg's w_k)."""
        share = (self.weights / self.weights.sum()).to(values.dtype)
        return torch.tensordot(share, values, dims=1)


class ClientModel(ABC):
    """A module that several methods train: how it is built and trained, and which part is its head."""

    name: ClassVar[str]
    family: ClassVar[str]
    head: ClassVar[tuple[str, ...]]

    @dataclass(frozen=True)
    class Params:
        """Settings of the model."""

    def __init__(self, params: Any) -> None:
        self.params = params

    @abstractmethod
    def build(self, task: Any) -> nn.Module:
        """One client's module."""

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """The phases of a round, in order; by default one."""
        return (Phase(),)

    @abstractmethod
    def steps(self, phase: Phase, lr: float) -> Sequence[Step]:
        """What runs on every minibatch, in order, at the method's learning rate."""

    def parameters(self, task: Any, module: nn.Module) -> Tensor:
        """Numbers [C] that each client holds for its predictions; by default all of ``module``'s."""
        return torch.full((len(task.ids),), sum(p.numel() for p in module.parameters()))

    def selectable(self, round_: int, rounds: int) -> bool:
        """Whether model selection may take this round (all parts trained); by default any."""
        return True

    def predict(self, model: Bound, batch: Any, moment: Moment) -> Tensor:
        """What the task scores; by default the module's output."""
        return model(batch)


class Method:
    """Base of every method; see the module's docstring for the places it fills."""

    name: ClassVar[str]
    cite: ClassVar[str]
    family: ClassVar[str | None] = None  # of tasks, e.g. forecast; None: that of the client model
    takes_model: ClassVar[bool] = False  # trains the client model that the study names
    trains: ClassVar[bool] = True  # False for reference rows without a gradient step
    couples: ClassVar[bool] = False  # clients meet inside the forward pass
    central: ClassVar[bool] = False  # couples so that all samples of a moment meet in one module, at a centre
    pools: ClassVar[bool] = False  # trains one model on everyone's samples, in one place
    only_averages: ClassVar[bool] = True  # the server does nothing but a weighted mean

    @dataclass(frozen=True)
    class Params:
        """Settings of the method, each with its source; the only home of their defaults."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for wanted in ("name", "cite"):
            if not isinstance(getattr(cls, wanted, None), str):
                raise TypeError(f"method {cls.__name__} declares no `{wanted}`")
        if cls.trains and not cls.takes_model and (cls.steps is Method.steps or cls.client is Method.client):
            raise TypeError(f"method {cls.__name__} takes no client model: write client() and steps()")
        if cls.family is None and not cls.takes_model:
            raise TypeError(
                f"method {cls.__name__} declares no `family` of tasks and takes no client model that has one"
            )

    def __init__(self, params: Any = None, model: ClientModel | None = None) -> None:
        self.params: Any = self.Params() if params is None else params
        if self.takes_model:
            if model is None:
                raise TypeError(f"method {self.name} trains a client model: name one in the study")
            self.model = model

    # -- one client ---------------------------------------------------------------------------------------------

    def client(self, task: Any) -> nn.Module:
        """One client's module; by default the client model that the study names."""
        return self.model.build(task)

    def rounds(self, requested: int) -> int:
        """How many rounds this method needs when the protocol asks for ``requested``."""
        return requested

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """The phases of round ``round_`` of ``rounds``, in order; by default the client model's, or one."""
        return self.model.phases(round_, rounds) if self.takes_model else (Phase(),)

    def selectable(self, round_: int, rounds: int) -> bool:
        """Whether model selection may take this round; by default as the client model says, or any."""
        return self.model.selectable(round_, rounds) if self.takes_model else True

    def steps(self, phase: Phase) -> Sequence[Step]:
        """What runs on every minibatch of a phase, in order; by default as the client model says."""
        return self.model.steps(phase, self.params.lr)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """What clients replace among their own tensors before a phase's first step, [c, ...]; nothing leaves them."""
        return {}

    def predict(self, model: Bound, batch: Any, moment: Moment) -> Tensor:
        """What the task scores, in the scale of the batch's targets; by default the module's output."""
        return self.model.predict(model, batch, moment) if self.takes_model else model(batch)

    def diagnose(self, model: Bound, batch: Any) -> Tensors:
        """Per-sample quantities for figures and audits, each [B, ...] (e.g. the prototype a window is assigned to)."""
        return {}

    @property
    def answers(self) -> Any:
        """What answers do(T) with trained weights, for methods that learn trajectories; by default the client model."""
        return self.model

    def edges(self, task: Any) -> Tensor:
        """Declared edges [2, E] of a coupled method; by default the task's graph."""
        return task.edges

    def parameters(self, task: Any, module: nn.Module) -> Tensor:
        """Numbers [C] that each client holds for its predictions; by default all of ``module``'s, none where central.

        Padding, and what helps while training alone, do not count.
        """
        if self.takes_model:
            return self.model.parameters(task, module)
        own = 0 if self.central else sum(p.numel() for p in module.parameters())
        return torch.full((len(task.ids),), own)

    # -- what is shared ------------------------------------------------------------------------------------------

    def collected(self, task: Any) -> Tensor:
        """Numbers [C] of its raw data that each client hands over before training; by default none."""
        return torch.zeros(len(task.ids), dtype=torch.float64)

    @property
    def shared(self) -> tuple[str, ...]:
        """Prefixes of the parameters and buffers that leave a client ("" for all). Assign a tuple where constant."""
        return ()

    def upload(self, clients: Clients) -> Tensors:
        """What leaves the clients after a phase, [c, ...] each; by default all below ``shared``."""
        return {name: clients.tensors[name] for name in matching(clients.tensors, self.shared)}

    # -- the server ----------------------------------------------------------------------------------------------

    def server(self, task: Any, start: Tensors) -> Tensors:
        """The server's state before round 0; by default its own draw of what is shared.

        ``start`` holds a fresh client module's parameters and buffers, without client axis.
        """
        return {name: start[name] for name in matching(start, self.shared)}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The server's new state; by default the weighted mean of each uploaded tensor."""
        return server | {name: uploads.mean(values) for name, values in uploads.tensors.items()}

    def serve(self, server: Tensors, task: Any, round_: int, rounds: int, seed: int) -> Tensors:
        """What the server does on its own after a round's aggregation (server-side training); by default nothing."""
        return server

    def download(self, server: Tensors, clients: Clients) -> Tensors:
        """What each client receives, [c, ...] each; by default the server's value of all that is shared."""
        return {
            name: server[name].expand(len(clients), *server[name].shape)
            for name in matching(server, self.shared)
            if name in clients.tensors
        }

    def charged(self, message: Tensors, clients: Clients) -> Tensor:
        """Numbers [c] that each client's row of a message, up or down, is charged for; by default all.

        For messages with padded rows, and for tensors that a client already holds under another name.
        """
        return torch.full((len(clients),), sum(v[0].numel() for v in message.values()), dtype=torch.float64)

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """The weights that are judged, [C, ...] each; by default own parameters under a fresh download."""
        return clients.tensors | self.download(server, clients)

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """Quantities of the method's own for a round's log; ``clients`` took part, ``server`` is its new state."""
        return {}
