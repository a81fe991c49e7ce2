"""What a method gives back at each place of the contract, looked at while it trains: names, shapes, kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.stack import Bound, Tensors, matching, tensors_of

Shape = tuple[int, ...]


class Watched:
    """Puts itself between a method and the engine. Raises AssertionError naming place, tensor, expected and found.

    ``answer`` is the field of a minibatch that predictions have the shape of.
    """

    def __init__(self, method: Method, answer: str) -> None:
        self.method, self.answer = method, answer
        self.params: Tensors = {}
        self.own: Tensors = {}
        self.parts: list[str] = []
        self.held: Tensors = {}
        looks: dict[str, Callable[..., None]] = {
            "client": self.client, "server": self.server, "phases": self.phases, "download": self.download,
            "begin": self.begin, "upload": self.upload, "aggregate": self.aggregate, "serve": self.serve,
            "evaluated": self.evaluated, "predict": self.predict, "charged": self.charged, "round_log": self.round_log,
            "edges": self.edges, "collected": partial(self.one_each, "collected"),
            "parameters": partial(self.one_each, "parameters"),
        }  # fmt: skip
        for place, look in looks.items():
            setattr(method, place, _looked(getattr(method, place), look))
        steps = method.steps
        method.steps = lambda phase: [self.step(step, phase) for step in steps(phase)]  # type: ignore[method-assign]

    def _expect(self, holds: bool, where: str, expected: str, found: object) -> None:
        if not holds:
            raise AssertionError(f"{self.method.name}: {where}: expected {expected}, found {found}")

    def _prefixes(self, where: str, prefixes: Sequence[str], tensors: Iterable[str], of: str) -> None:
        self._expect(not isinstance(prefixes, str), where, "a tuple of prefixes", repr(prefixes))
        names = list(tensors)
        for prefix in prefixes:
            tops = sorted({name.partition(".")[0] for name in names})
            there = bool(matching(names + self.parts, (prefix,)))
            self._expect(there, where, f"prefixes of {of} ({', '.join(tops)})", repr(prefix))

    def _message(self, place: str, message: object, clients: int) -> Tensors:
        self._expect(isinstance(message, dict), place, "tensors by name", type(message).__name__)
        assert isinstance(message, dict)
        for name, value in message.items():
            shape = tuple(value.shape)
            self._expect(
                len(shape) > 0 and shape[0] == clients,
                f"{place}, {name!r}",
                f"a first axis of {clients} clients",
                shape,
            )
        return message

    def _own(self, place: str, message: object, clients: int) -> None:
        """Tensors that take the place of clients' own."""
        for name, value in self._message(place, message, clients).items():
            self._expect(name in self.own, place, f"names of client tensors ({', '.join(self.own)})", repr(name))
            shape = (clients, *self.own[name].shape)
            self._expect(tuple(value.shape) == shape, f"{place}, {name!r}", f"shape {shape}", tuple(value.shape))

    # -- one client ---------------------------------------------------------------------------------------------

    def client(self, module: object, task: Any) -> None:
        self._expect(isinstance(module, nn.Module), "client", "a torch module", type(module).__name__)
        assert isinstance(module, nn.Module)
        self.params, buffers = tensors_of(module)
        self.own = self.params | buffers
        self.parts = [name for name, _ in module.named_modules() if name]  # one may hold no parameter for this task

    def phases(self, phases: Sequence[Phase], round_: int, rounds: int) -> None:
        names = [phase.name for phase in phases]
        where = f"phases of round {round_}"
        self._expect(len(set(names)) == len(names), where, "a name of its own for each", names)

    def step(self, step: object, phase: Phase) -> Step:
        where = f"steps of phase {phase.name!r}"
        self._expect(isinstance(step, Step), where, "Step(loss, optimiser)", type(step).__name__)
        assert isinstance(step, Step)
        where = f"{where}, {step.name!r}"
        if step.at_server:
            self._prefixes(f"{where}: over", step.over, self.held, "the server's tensors")
        else:
            self._prefixes(f"{where}: over", step.over, self.params, "parameters")

        def loss(model: Bound, batch: Any, moment: Moment) -> Outcome:
            try:
                outcome = step.loss(model, batch, moment)
            except (RuntimeError, IndexError, KeyError) as error:
                raise AssertionError(f"{self.method.name}: loss of {where}: {error}") from error
            self.outcome(outcome, f"loss of {where}", len(batch[0]))
            return outcome

        return replace(step, loss=loss)

    def outcome(self, outcome: object, where: str, clients: int) -> None:
        self._expect(isinstance(outcome, Outcome), where, "Outcome(loss)", type(outcome).__name__)
        assert isinstance(outcome, Outcome)
        lead: Shape = (clients,) if self.method.couples else ()
        kind = f"one number a client, shape {lead}" if lead else "a scalar, shape ()"
        self._expect(tuple(outcome.loss.shape) == lead, where, kind, f"shape {tuple(outcome.loss.shape)}")
        buffers = self.own.keys() - self.params.keys()
        for name, value in outcome.buffers.items():
            self._expect(
                name in buffers, f"{where}: buffers", f"client buffers ({', '.join(sorted(buffers))})", repr(name)
            )
            shape, found = tuple(self.own[name].shape), tuple(value.shape)
            # What a centre keeps has one row, whatever the number of clients.
            held = (1,) if self.method.central else lead
            self._expect(found == held + shape, f"{where}: buffer {name!r}", f"shape {held + shape}", found)

    def begin(self, fresh: object, phase: Phase, clients: Clients) -> None:
        self._own(f"begin of phase {phase.name!r}", fresh, len(clients))

    def predict(self, forecast: Tensor, model: Bound, batch: Any, moment: Moment) -> None:
        shape = tuple(getattr(batch, self.answer).shape)
        self._expect(tuple(forecast.shape) == shape, "predict", f"shape {shape}", tuple(forecast.shape))

    # -- what is shared, and the server --------------------------------------------------------------------------

    def server(self, state: object, task: Any, start: Tensors) -> None:
        self._prefixes("shared", self.method.shared, start, "client tensors")
        # Some models have no head of some parts, so one prefix of several is enough.
        if self.method.personal and not matching(start, self.method.personal):
            self._prefixes("personal", self.method.personal, start, "client tensors")
        self._expect(isinstance(state, dict), "server", "tensors by name", type(state).__name__)
        assert isinstance(state, dict)
        self.held = state

    def upload(self, message: object, clients: Clients) -> None:
        self._message("upload", message, len(clients))

    def aggregate(self, state: Tensors, server: Tensors, uploads: Uploads) -> None:
        self._same("aggregate", state, server)

    def serve(self, state: Tensors, server: Tensors, *rest: Any) -> None:
        self._same("serve", state, server)

    def _same(self, place: str, state: Tensors, server: Tensors) -> None:
        """What clients can receive keeps the shape that it had."""
        self._expect(isinstance(state, dict), place, "tensors by name", type(state).__name__)
        for name in server.keys() & self.own.keys():
            self._expect(name in state, place, f"{name!r} among what it gives back", f"{', '.join(state) or 'nothing'}")
            before, after = tuple(server[name].shape), tuple(state[name].shape)
            self._expect(after == before, f"{place}, {name!r}", f"shape {before} as before", after)

    def download(self, message: object, server: Tensors, clients: Clients) -> None:
        self._own("download", message, len(clients))

    def charged(self, numbers: Tensor, message: Tensors, clients: Clients) -> None:
        shape = (len(clients),)
        self._expect(
            tuple(numbers.shape) == shape, "charged", f"a number a client, shape {shape}", tuple(numbers.shape)
        )

    def evaluated(self, weights: object, server: Tensors, clients: Clients) -> None:
        everyone = 1 if self.method.central else len(clients)
        self._message("evaluated", weights, everyone)

    def round_log(self, log: dict[str, float], server: Tensors, clients: Clients) -> None:
        for name, value in log.items():
            self._expect(isinstance(value, float), f"round_log, {name!r}", "a float", type(value).__name__)

    def one_each(self, place: str, numbers: Tensor, task: Any, *rest: Any) -> None:
        shape = (len(task.ids),)
        self._expect(tuple(numbers.shape) == shape, place, f"a number a client, shape {shape}", tuple(numbers.shape))

    def edges(self, edges: Tensor, task: Any) -> None:
        clients = len(task.ids)
        shape_fits = edges.dim() == 2 and edges.shape[0] == 2 and edges.dtype == torch.int64
        self._expect(shape_fits, "edges", "int64 of shape (2, E)", f"{edges.dtype} of shape {tuple(edges.shape)}")
        inside = bool(((edges >= 0) & (edges < clients)).all())
        self._expect(inside, "edges", f"positions of clients, 0 to {clients - 1}", edges.unique().tolist())


def _looked(place: Callable[..., Any], look: Callable[..., None]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        given = place(*args)
        look(given, *args)
        return given

    return called
