"""The contract: everything that a method can say to the engine. Nothing here knows a method's name.

A method is a class in a module of its own, which the registry finds by its ``name``: parameters, what one client
computes, how it learns, what it shares, what the server does. Complete is, for example,

    class FedAvg(Method):
        name, cite = "fedavg", "McMahan et al. 2017, Alg. 1"
        takes_model = True  # the client model that the study names: module, phases, steps, loss
        shared = ("",)  # prefixes of the tensors that travel; "" is all of them

        @dataclass(frozen=True)
        class Params:
            lr: float = 1e-3

Places of a run, in the order in which the engine calls them. c clients stand side by side, out of C; a message and a
server's state are tensors by name. A method fills those that differ from the default; a client model fills its own.

    place       called                       gets -> gives                                        default
    ----------  ---------------------------  ---------------------------------------------------  ----------------------
    client      once a client                task -> module of one client                         the client model's
    server      before round 0               task, a fresh client's tensors -> server             what is shared of them
    rounds      before round 0               rounds asked for -> rounds needed                    as many
    collected   in round 0                   task -> numbers [C] of raw data handed over          none
    phases      every round                  round, rounds -> phases, in order                    the model's, or one
    download    a phase with ``download``    server, clients -> what they receive [c, ...]        the server's of shared
    begin       every phase                  phase, clients -> new tensors of their own [c, ...]  none
    steps       every phase                  phase -> steps that run on every minibatch           the client model's
    its loss    every minibatch              one client's model, batch [B, ...], moment ->        -
                                             outcome: scalar loss, new buffers, means
    upload      a phase with ``upload``      clients with their means -> what they send [c, ...]  what is shared
    aggregate   when all of them have sent   server, uploads [c, ...] -> server                   weighted means
    round_log   after that                   server, clients that took part -> numbers by name    none
    serve       at the end of a round        server, task, round, rounds, seed -> server          nothing is done
    evaluated   where weights are judged     server, all clients -> weights [C, ...]              own under a download
    validated   where weights are judged     task, skeleton, weights [C, ...] -> validation       the task's
    predict     where weights are judged     one client's model, batch, moment -> [B, ...]        the module's output
    selectable  where weights are judged     round, rounds -> whether it may be chosen            the model's, or always
    diagnose    for figures                  one client's model, batch -> tensors [B, ...]        none
    charged     with every message           message, clients -> numbers [c] that are charged     all of its numbers
    parameters  when a run is written        task, module -> numbers [C] that clients hold        all of the module's

A loss runs under ``vmap``: no branch on values, no randomness but ``Step.noise``. A method that ``couples`` its clients
gets them all at once instead: model and batch are [C, B, ...], a loss is [C], ``moment.exchange`` moves tensors along
``edges`` and to the server and back, and nothing else may mix clients. What a family of tasks asks for beyond this
stands with the family. ``fedloom.check`` says in words where a method falls short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fedloom.errors import InputError
from fedloom.federation.client_model import ClientModel
from fedloom.federation.protocol import Protocol
from fedloom.federation.stack import Bound, Tensors, matching
from fedloom.federation.task import Validation
from fedloom.federation.values import Clients, Loss, Moment, Noise, Outcome, Phase, Step, Uploads

__all__ = [
    "ClientModel", "Clients", "Loss", "Method", "Moment", "Noise", "Outcome", "Phase", "Step", "Tensors", "Uploads",
]  # fmt: skip


class Method:
    """Base of every method."""

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

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        for wanted in ("name", "cite"):
            if not isinstance(getattr(cls, wanted, None), str):
                raise TypeError(f"method {cls.__name__} declares no `{wanted}`")
        if cls.family is None and not cls.takes_model:
            raise TypeError(
                f"method {cls.__name__} declares no `family` of tasks and takes no client model that has one"
            )

    def __init__(self, params: Any = None, model: ClientModel | None = None) -> None:
        """``model`` is the client model that the study names, or one that the method brings itself."""
        self.params: Any = self.Params() if params is None else params
        self.model: Any = model
        if model is None and self.takes_model:
            raise TypeError(f"method {self.name} trains a client model: name one in the study")
        own = type(self)
        if model is None and self.trains and (own.steps is Method.steps or own.client is Method.client):
            raise TypeError(f"method {self.name} takes no client model: write client() and steps()")

    # -- one client ---------------------------------------------------------------------------------------------

    def client(self, task: Any) -> nn.Module:
        """One client's module."""
        return self.model.build(task)

    def rounds(self, requested: int) -> int:
        """How many rounds this method needs when the protocol asks for ``requested``."""
        return requested

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """The phases of round ``round_`` of ``rounds``, in order."""
        return (Phase(),) if self.model is None else self.model.phases(round_, rounds)

    def selectable(self, round_: int, rounds: int) -> bool:
        """Whether model selection may take this round."""
        return True if self.model is None else self.model.selectable(round_, rounds)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """What runs on every minibatch of a phase, in order."""
        return self.model.steps(phase, self.params.lr)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """What clients replace among their own tensors before a phase's first step, [c, ...]; nothing leaves them."""
        return {}

    def predict(self, model: Bound, batch: Any, moment: Moment) -> Tensor:
        """What the task scores, in the scale of the batch's targets."""
        return model(batch) if self.model is None else self.model.predict(model, batch, moment)

    def validated(self, task: Any, skeleton: nn.Module, weights: Tensors) -> Validation | None:
        """How good weights [C, ...] are on the validation part; None: as good as the task says of their predictions."""
        return None

    def diagnose(self, model: Bound, batch: Any) -> Tensors:
        """Per-sample quantities for figures and audits, each [B, ...].

        Known to evaluation: ``assignment``, the prototype a window is assigned to; ``weights`` [B, I] of the rows of a
        parameter ``codebook`` [I, D], and with them the ``latent`` vector [B, D] that they were found from.
        """
        return {}

    def edges(self, task: Any) -> Tensor:
        """Declared edges [2, E] of a coupled method; by default the task's graph."""
        return task.edges

    def parameters(self, task: Any, module: nn.Module) -> Tensor:
        """Numbers [C] that each client holds for its predictions: none where ``central``.

        Padding, and what helps while training alone, do not count.
        """
        if self.model is not None:
            return self.model.parameters(task, module)
        own = 0 if self.central else sum(p.numel() for p in module.parameters())
        return torch.full((len(task.ids),), own)

    # -- what is shared ------------------------------------------------------------------------------------------

    def collected(self, task: Any) -> Tensor:
        """Numbers [C] of its raw data that each client hands over before training (to a centre)."""
        return torch.zeros(len(task.ids), dtype=torch.float64)

    @property
    def shared(self) -> tuple[str, ...]:
        """Prefixes of the parameters and buffers that leave a client ("" for all). Assign a tuple where constant."""
        return ()

    @property
    def personal(self) -> tuple[str, ...]:
        """Prefixes of what stays with a client although ``shared`` covers it. Assign a tuple where constant."""
        return ()

    def travelling(self, tensors: Tensors) -> list[str]:
        """The names of ``tensors`` below ``shared`` and not below ``personal``."""
        stay = set(matching(tensors, self.personal))
        return [name for name in matching(tensors, self.shared) if name not in stay]

    def upload(self, clients: Clients) -> Tensors:
        """What leaves the clients after a phase, [c, ...] each."""
        return {name: clients.tensors[name] for name in self.travelling(clients.tensors)}

    # -- the server ----------------------------------------------------------------------------------------------

    def server(self, task: Any, start: Tensors) -> Tensors:
        """The server's state before round 0.

        ``start`` holds a fresh client module's parameters and buffers, without client axis.
        """
        return {name: start[name] for name in self.travelling(start)}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The server's new state."""
        return server | uploads.means(uploads.tensors, server)

    @property
    def averages_uploads(self) -> bool:
        """Whether uploads reach the server's state through ``uploads.means`` alone, where a robust rule may stand."""
        return type(self).aggregate is Method.aggregate

    def refuse(self, protocol: Protocol, where: str = "protocol") -> None:
        """Raise InputError where the protocol, which stands at ``where``, asks for what the method cannot do."""
        sending = f"expected a method whose clients only send uploads, found {self.name}"
        if protocol.noise is not None and (self.couples or self.pools):
            raise InputError(f"{where}.noise: {sending}")
        if protocol.faults.any and self.couples:
            raise InputError(f"{where}.faults: {sending}")
        rule = protocol.server_rule.kind
        if rule != "mean" and not self.averages_uploads:
            found = f"{rule} for {self.name}, whose server makes something else of uploads"
            raise InputError(f"{where}.server_rule: expected mean, found {found}")

    def serve(self, server: Tensors, task: Any, round_: int, rounds: int, seed: int) -> Tensors:
        """What the server does on its own after a round's aggregation (server-side training)."""
        return server

    def download(self, server: Tensors, clients: Clients) -> Tensors:
        """What each client receives, [c, ...] each."""
        return {
            name: server[name].expand(len(clients), *server[name].shape)
            for name in self.travelling(server)
            if name in clients.tensors
        }

    def charged(self, message: Tensors, clients: Clients) -> Tensor:
        """Numbers [c] that each client's row of a message, up or down, is charged for.

        For messages with padded rows, and for tensors that a client already holds under another name.
        """
        return torch.full((len(clients),), sum(v[0].numel() for v in message.values()), dtype=torch.float64)

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """The weights that are judged, [C, ...] each: a client's own under a fresh download."""
        return clients.tensors | self.download(server, clients)

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """Quantities of the method's own for a round's log; ``clients`` took part, ``server`` is its new state."""
        return {}
