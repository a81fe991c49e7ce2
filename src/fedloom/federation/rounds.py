"""The federation: rounds of download, local training, upload, aggregation and validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.errors import InputError
from fedloom.federation.exchange import Exchange, Ledger
from fedloom.federation.faults import Site, arriving, gone
from fedloom.federation.local import Local, Work, train_clients, trainable
from fedloom.federation.memory import clients_per_chunk
from fedloom.federation.method import Clients, Method, Moment, Phase, Uploads
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import derive, draw_clients, name_key
from fedloom.federation.robust import finite_uploads
from fedloom.federation.stack import (
    Bound,
    StackedBound,
    Tensors,
    build,
    compact,
    matching,
    seeded,
    stack_clients,
    tensors_of,
)
from fedloom.federation.task import Task, Validation
from fedloom.federation.upload_noise import disturbed

EVALUATION_CHUNK = 2**16  # client-windows a prediction call takes at most
RUNAWAY = 100.0  # times the first validation score: worse by so much than all but untrained, a run has diverged
COUPLED_WINDOWS = 64  # the like for a coupled method: samples that all clients predict at once

Answer = Callable[[Bound, Any, Moment], Tensor]  # of one client's model (all of a coupled method's) to a batch


@dataclass
class Best:
    """The round with the lowest validation score so far, and the weights judged there."""

    round: int = -1
    score: float = float("inf")
    weights: Tensors = field(default_factory=dict)


@dataclass
class State:
    """All that training carries from round to round; saved and loaded whole.

    ``log`` has one entry (round, client or "all", quantity, value) a logged number. ``snapshots`` are kept weights by
    ``round{r}/{name}``, as they will be written. ``held_up`` are uploads that may yet arrive late (see ``arriving``).
    ``diverged`` says why training ended early.
    """

    round: int
    params: Tensors
    buffers: Tensors
    moments: dict[str, Tensors]
    server: Tensors
    best: Best = field(default_factory=Best)
    log: list[tuple[int, str, str, float]] = field(default_factory=list)
    snapshots: Tensors = field(default_factory=dict)
    held_up: Tensors = field(default_factory=dict)
    diverged: str | None = None


class Federation:
    """A method at work on a task.

    ``backend`` is ``batched`` or ``loop``; ``chunk`` bounds how many clients train side by side (None: by memory).
    Neither changes the result.
    """

    def __init__(
        self,
        method: Method,
        task: Task,
        protocol: Protocol,
        seed: int,
        backend: str = "batched",
        chunk: int | None = None,
    ) -> None:
        self.method, self.task, self.protocol, self.seed = method, task, protocol, seed
        self.backend = backend
        method.refuse(protocol)
        self.rounds = method.rounds(protocol.rounds)
        keys = torch.tensor([name_key("centre")]) if method.central else task.keys.cpu()
        self.skeleton, self._params, self._buffers = stack_clients(
            lambda: method.client(task), seed, keys, task.dtype, task.device
        )
        self._chunk = chunk

    @property
    def parameters(self) -> int:
        """Parameters of one client's module."""
        return sum(p.numel() for p in self.skeleton.parameters())

    def start(self) -> State:
        """The state before round 0."""
        method, task = self.method, self.task
        module = build(lambda: method.client(task), self.seed, name_key("server"), task.dtype)
        own, fixed = tensors_of(module)
        fresh = {n: t.to(task.device) for n, t in (own | fixed).items()}
        params = {n: p.clone() for n, p in self._params.items()}
        buffers = {n: b.clone() for n, b in self._buffers.items()}
        with seeded(self.seed, name_key("server's own")):
            server = method.server(task, fresh)
        return State(0, params, buffers, {}, server)

    def _ensure_moments(self, state: State, phase: Phase) -> None:
        for step in self.method.steps(phase):
            if step.optimiser is not None and step.name not in state.moments:
                tensors = trainable(step, state.params, state.server)
                names = matching(tensors, step.over) if step.over else list(tensors)
                state.moments[step.name] = step.optimiser.start({n: tensors[n] for n in names})

    def _everyone(self, state: State) -> Clients:
        positions = torch.arange(len(self.task.ids), device=self.task.device)
        weights = self.task.sizes("train").to(self.task.device)
        return Clients(positions, weights, state.params, state.buffers, {})

    def central_parameters(self, state: State) -> int:
        """Parameters that a centre trains, or the server beside those it averages."""
        if self.method.central:
            return self.parameters
        last = range(self.rounds)[-1:]
        phases = (self.work(planned, r).phase for r in last for planned in self.method.phases(r, self.rounds))
        steps = (step for phase in phases for step in self.method.steps(phase) if step.at_server)
        over = [name for step in steps for name in (step.over or ("",))]
        return sum(state.server[name].numel() for name in matching(state.server, tuple(over)))

    def weights(self, state: State) -> Tensors:
        """The weights that are judged in this state, [C, ...] (a tensor all clients share has stride 0 along C)."""
        return self.method.evaluated(state.server, self._everyone(state))

    def validate(self, weights: Tensors) -> Validation:
        """Judge ``weights`` on the validation part."""
        own = self.method.validated(self.task, self.skeleton, weights)
        if own is not None:
            return own
        return self.task.validate(predictor(self.method, self.skeleton, self.task, weights), EVALUATION_CHUNK)

    # -- one round -----------------------------------------------------------------------------------------------

    def step(self, state: State) -> None:
        """Run one round in place: its phases, the server's own work, validation, log."""
        ledger = Ledger(len(self.task.ids))
        if state.round == 0:
            ledger.uploaded(torch.arange(len(self.task.ids)), self.method.collected(self.task))
        with torch.no_grad():
            for planned in self.method.phases(state.round, self.rounds):
                work = replace(self.work(planned, state.round), server=state.server)
                self._phase(state, work, ledger)
                if state.diverged is not None:
                    break
            else:
                with torch.enable_grad():
                    state.server = self.method.serve(state.server, self.task, state.round, self.rounds, self.seed)
                state.diverged = self._overflow(state)
            self._note(state, "bytes_up", ledger.up)
            self._note(state, "bytes_down", ledger.down)
            last = state.round == self.rounds - 1
            if state.diverged is None and (last or state.round % self.protocol.validate_every == 0):
                self._select(state)
            every = self.protocol.snapshot_every
            if state.diverged is None and every and (last or (state.round + 1) % every == 0):
                state.snapshots |= compact(self.weights(state), f"round{state.round}")
        state.round += 1

    def _overflow(self, state: State) -> str | None:
        """Where a round of finite losses has left numbers that are not: after the last step, or at the server."""
        for owner, tensors in (("the server's", state.server), ("a client's", state.params)):
            for name, value in tensors.items():
                if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                    return f"{owner} {name} is not finite after round {state.round}"
        return None

    def _note(self, state: State, quantity: str, values: float | Tensor | np.ndarray) -> None:
        if isinstance(values, Tensor | np.ndarray):
            rows = zip(self.task.ids, values.tolist(), strict=True)
            state.log += [(state.round, client, quantity, float(v)) for client, v in rows]
        else:
            state.log.append((state.round, "all", quantity, float(values)))

    def _select(self, state: State) -> None:
        weights = self.weights(state)
        looked = self.validate(weights)
        self._note(state, "validation_score", looked.score)
        first = next(value for _, _, quantity, value in state.log if quantity == "validation_score")
        if not looked.bounded and looked.score > RUNAWAY * first > 0:
            where = f"in round {state.round} is {looked.score:.3g}, the first was {first:.3g}"
            state.diverged = f"validation score {where}"
        for quantity, values in looked.log.items():
            self._note(state, quantity, values)
        if looked.score < state.best.score and self.method.selectable(state.round, self.rounds):
            state.best = Best(state.round, looked.score, {n: _copy(w) for n, w in weights.items()})

    def work(self, planned: Phase, round_: int) -> Work:
        """A phase of a round as clients work on it: what it leaves open is the protocol's."""
        protocol = self.protocol
        batches = protocol.batches if planned.batches is None else planned.batches
        whole = protocol.train_stride == 1 and not batches
        phase = replace(planned, round=round_, progress=round_ / self.rounds, whole=whole)
        return Work(
            self.method,
            self.skeleton,
            self.task,
            phase,
            self.seed,
            epochs=protocol.epochs if phase.epochs is None else phase.epochs,
            batches=batches,
            batch=protocol.batch,
            stride=protocol.train_stride,
            backend=self.backend,
            products=protocol.products,
        )

    def _phase(self, state: State, work: Work, ledger: Ledger) -> None:
        method, task, phase = self.method, self.task, work.phase
        share = self.protocol.participation if phase.participation is None else phase.participation
        sizes = task.sizes("train").to(task.device)
        able = (sizes > 0).nonzero()[:, 0]
        drawn = able[draw_clients(task.keys[able], share, self.seed, state.round)]
        drawn = drawn[sizes[drawn].argsort(descending=True, stable=True)]
        self._ensure_moments(state, phase)
        chunk = self._chunk or clients_per_chunk(work, state.params)
        if method.couples:
            if len(drawn) < len(sizes) or bool((sizes != sizes[0]).any()):
                raise InputError(f"{method.name}: clients: expected all with the same training windows, found others")
            chunk = len(drawn)
        site = Site(task.keys, drawn, self.seed, state.round, phase.name)
        stays = ~gone(self.protocol.faults, site)
        uploads: list[Tensors] = []
        losses = torch.full((len(task.ids),), float("nan"), dtype=torch.float64, device=task.device)
        means: list[Tensors] = []
        for begin in range(0, len(drawn), max(1, chunk)):
            rows = drawn[begin : begin + chunk]
            local = _take(state, rows)
            if phase.download:
                self._download(state.server, local, ledger)
            clients = Clients(rows, sizes[rows], local.params, local.buffers, {})
            _replace(local, method.begin(phase, clients))
            progress = train_clients(work, local, ledger)
            _put(state, local)
            losses[rows] = progress.loss
            means.append(progress.means)
            if progress.diverged:
                client, batch = progress.diverged[0]
                name = task.ids[int(rows[client])]
                state.diverged = f"loss of client {name} is not finite in round {state.round}, batch {batch}"
                break
            if phase.upload:
                clients = Clients(rows, sizes[rows], local.params, local.buffers, progress.means)
                sent = method.upload(clients)
                numbers = method.charged(sent, clients)
                ledger.uploaded(rows, numbers * stays[begin : begin + chunk].to(numbers.device))
                uploads.append(self._disturb(state, phase, clients, sent))
        if any(step.optimiser is not None for step in method.steps(phase)):
            self._note(state, f"{phase.name}_loss", losses)
        if state.diverged is None and phase.upload and uploads:
            received = {n: torch.cat([u[n] for u in uploads]) for n in uploads[0]}
            if received:
                self._aggregate(state, site, received)
        if state.diverged is None and means:
            joined = {n: torch.cat([m[n] for m in means]) for n in means[0]}
            took_part = Clients(drawn, sizes[drawn], _rows(state.params, drawn), _rows(state.buffers, drawn), joined)
            for quantity, value in method.round_log(state.server, took_part).items():
                self._note(state, quantity, value)

    def _aggregate(self, state: State, site: Site, sent: Tensors) -> None:
        """The server's new state, of what arrives of ``sent``; the old one where nothing does."""
        rule, task = self.protocol.server_rule, self.task
        arrives, received, state.held_up = arriving(self.protocol.faults, site, sent, state.held_up)
        sound = finite_uploads(received) | ~arrives
        if rule.kind == "mean" and not bool(sound.all()):
            name = task.ids[int(site.rows[~sound][0])]
            state.diverged = f"upload of client {name} is not finite in round {state.round}"
            return
        kept, rows = arrives & sound, site.rows
        if not bool(kept.all()):
            rows, received = rows[kept], {n: value[kept] for n, value in received.items()}
        if len(rows):
            weights = task.sizes("train").to(task.device)[rows]
            state.server = self.method.aggregate(state.server, Uploads(rows, weights, received, rule))

    def _disturb(self, state: State, phase: Phase, clients: Clients, sent: Tensors) -> Tensors:
        """What reaches the server of an upload, as the protocol asks for noise."""
        noise = self.protocol.noise
        if noise is None or not sent:
            return sent
        keys = derive(self.task.keys[clients.positions], self.seed, "upload noise", phase.name, state.round)
        received, length = disturbed(noise, sent, self.method.download(state.server, clients), keys)
        at = clients.positions.tolist()
        rows = zip(at, length.tolist(), strict=True)
        state.log += [(state.round, self.task.ids[place], "upload_length", far) for place, far in rows]
        return received

    def _download(self, server: Tensors, local: Local, ledger: Ledger) -> None:
        weights = self.task.sizes("train").to(self.task.device)[local.rows]
        clients = Clients(local.rows, weights, local.params, local.buffers, {})
        received = self.method.download(server, clients)
        ledger.downloaded(local.rows, self.method.charged(received, clients))
        _replace(local, received)

    def run(self, state: State, after_round: Callable[[State], bool] | None = None) -> State:
        """Run the remaining rounds. ``after_round`` may save the state; where it returns True training stops early."""
        while state.round < self.rounds and state.diverged is None:
            self.step(state)
            if after_round is not None and after_round(state):
                return state
        if state.best.round < 0 and state.diverged is None:
            self._select(state)
        return state


def _replace(local: Local, tensors: Tensors) -> None:
    """Put ``tensors`` [c, ...] in the place of the clients' own; their moments are stale, and start anew."""
    everyone = local.params | local.buffers
    for name, value in tensors.items():
        everyone[name].copy_(value)
        for moments in local.moments.values():
            for kind in ("mean", "square", "count"):
                if f"{name}/{kind}" in moments:
                    moments[f"{name}/{kind}"].zero_()


def _copy(weight: Tensor) -> Tensor:
    """A copy that stays one row where all clients share the tensor."""
    if weight.shape[0] > 1 and weight.stride(0) == 0:
        return weight[:1].clone().expand(weight.shape)
    return weight.clone()


def _contiguous(rows: Tensor) -> bool:
    return bool((rows == torch.arange(int(rows[0]), int(rows[0]) + len(rows), device=rows.device)).all())


def _rows(tensors: Tensors, rows: Tensor) -> Tensors:
    """The clients' rows: views where they lie side by side, copies else."""
    if _contiguous(rows):
        begin = int(rows[0])
        return {n: t[begin : begin + len(rows)] for n, t in tensors.items()}
    return {n: t[rows.to(t.device)] for n, t in tensors.items()}


def _take(state: State, rows: Tensor) -> Local:
    moments = {step: _rows(tensors, rows) for step, tensors in state.moments.items()}
    return Local(rows, _rows(state.params, rows), _rows(state.buffers, rows), moments)


def _put(state: State, local: Local) -> None:
    if _contiguous(local.rows):
        return
    pairs = [(state.params, local.params), (state.buffers, local.buffers)]
    pairs += [(state.moments[step], tensors) for step, tensors in local.moments.items()]
    for whole, part in pairs:
        for name, value in part.items():
            whole[name][local.rows.to(value.device)] = value


def predictor(
    method: Method, skeleton: nn.Module, task: Task, weights: Tensors, answer: Answer | None = None
) -> Callable[[tuple, Tensor], Tensor]:
    """Predict with ``weights`` [C, ...]: (batch [c, ...], rows [c]) -> what the method's ``predict`` gives, [c, ...].

    ``answer`` stands in the place of ``predict`` where a method has another. A coupled method sees all clients at once,
    and ``COUPLED_WINDOWS`` samples; every other is mapped over clients.
    """
    answer = answer or method.predict
    exchange = Exchange(method.edges(task)) if method.couples else None
    own = {name for name, _ in (*skeleton.named_parameters(), *skeleton.named_buffers())}

    def one(tensors: Tensors, batch: tuple) -> Tensor:
        return answer(Bound(skeleton, tensors), batch, Moment({}, {}))

    def predict(batch: tuple, rows: Tensor) -> Tensor:
        mine = weights if len(rows) == len(task.ids) else {n: w[rows] for n, w in weights.items()}
        with torch.no_grad():
            if exchange is None:
                return torch.vmap(one)(mine, batch)
            held = {n: w[0] for n, w in weights.items() if n not in own}
            model = StackedBound(skeleton, {n: w for n, w in mine.items() if n in own})
            moment = Moment({}, {}, exchange, server=held)
            pieces = zip(*(part.split(COUPLED_WINDOWS, 1) for part in batch), strict=True)
            return torch.cat([answer(model, type(batch)(*piece), moment) for piece in pieces], 1)

    return predict
