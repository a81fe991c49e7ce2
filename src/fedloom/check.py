"""``check_method``: the properties that every method must have, run on one small forecasting problem in float64.

A method's author calls it in a test; each failure says in words what does not hold. Client sizes are unequal, readings
are missing, and one client has no training window at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedloom.data.panel import Panel
from fedloom.federation.exchange import WIRE_BYTES, Ledger
from fedloom.federation.local import Local, Work, train_clients
from fedloom.federation.method import Clients, Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation, State
from fedloom.federation.store import Store
from fedloom.federation.tasks.forecast import ForecastTask, forecast_task

NAMES = "abcde"
CLIENTS, STEPS, HISTORY, HORIZON = len(NAMES), 160, 12, 4
TRAIN_END, VALIDATION_END = 100, 130
PROTOCOL = Protocol(rounds=3, batch=16, train_stride=2, validation_stride=2, precision="float64")
CLOSE = 1e-9


@dataclass(frozen=True)
class Problem:
    """A small forecasting problem: raw readings [C, S], window starts of each client and part, a ring of edges."""

    values: np.ndarray
    train_from: tuple[int, ...]
    ids: tuple[str, ...]

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> ForecastTask:
        """The problem as a task on ``device``."""
        stamps = pd.date_range("2024-01-01", periods=self.values.shape[1], freq="h", name="timestamp")
        values = pd.DataFrame(self.values.T, index=stamps, columns=list(self.ids))
        edges = pd.DataFrame({"src": list(NAMES), "dst": [*NAMES[1:], NAMES[0]], "weight": 1.0})
        nodes = pd.DataFrame({"lat": np.nan, "lon": np.nan}, index=pd.Index(self.ids, name="id"))
        panel = Panel(values=values, nodes=nodes, edges=edges)
        seen = values.iloc[:TRAIN_END]
        clients = pd.DataFrame({"mean": seen.mean(), "std": seen.std(ddof=0)}, index=pd.Index(self.ids, name="client"))
        span = HISTORY + HORIZON
        ranges = {"validation": (TRAIN_END, VALIDATION_END), "test": (VALIDATION_END, self.values.shape[1])}
        rows = []
        for client, first in enumerate(self.train_from):
            own = {"train": (first, TRAIN_END)} | ranges
            rows += [(client, part, s) for part, (a, b) in own.items() for s in range(a, b - span + 1)]
        windows = pd.DataFrame(rows, columns=["client", "part", "start"])
        partition = {
            "dataset": "check", "history": HISTORY, "horizon": HORIZON, "interval_minutes": 60,
            "fill": "mean", "missing_literal": None,
        }  # fmt: skip
        return forecast_task(panel, partition, clients, windows, protocol, torch.device(device))

    def pick(self, order: list[int]) -> Problem:
        """The same problem with these clients, in this order."""
        return Problem(self.values[order], tuple(self.train_from[i] for i in order), tuple(self.ids[i] for i in order))


def problem(equal: bool = False) -> Problem:
    """Noisy daily waves with a tenth of the readings missing; equal windows for all where ``equal``."""
    rng = np.random.default_rng(7)
    hours = np.arange(STEPS)
    phase, level = rng.uniform(0, 6, (CLIENTS, 1)), rng.uniform(20, 60, (CLIENTS, 1))
    values = level + 8 * np.sin(2 * np.pi * hours / 24 + phase) + rng.normal(0, 1, (CLIENTS, STEPS))
    values[rng.uniform(size=values.shape) < 0.1] = np.nan
    train_from = (0,) * CLIENTS if equal else (0, 30, 12, 0, TRAIN_END)
    return Problem(values, train_from, tuple(NAMES))


Factory = Callable[[], Method]


class Subject:
    """A method under check: how to make it, and its plain run, trained once for all checks."""

    def __init__(self, make: Factory) -> None:
        self.make = make
        self.method = make()
        self.given = problem(equal=self.method.couples)

    @cached_property
    def plain(self) -> tuple[Federation, State]:
        """The method trained on the problem as it stands."""
        return _run(self.make, self.given)

    @cached_property
    def trained(self) -> dict[str, Tensor]:
        """All weights after the plain run."""
        return _everything(*self.plain)


def _run(
    make: Factory, given: Problem, protocol: Protocol = PROTOCOL, seed: int = 3, **how: object
) -> tuple[Federation, State]:
    federation = Federation(make(), given.task(protocol), protocol, seed, **how)  # type: ignore[arg-type]
    return federation, federation.run(federation.start())


def _gap(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Largest absolute difference between two sets of tensors of the same names."""
    if a.keys() != b.keys():
        raise AssertionError(f"tensors differ: {sorted(a.keys() ^ b.keys())}")
    gaps = [(a[n].double() - b[n].double()).abs().max() for n in a if a[n].numel()]
    return float(max(gaps, default=torch.zeros(())))


def _everything(federation: Federation, state: State) -> dict[str, Tensor]:
    whole = {f"params/{n}": t for n, t in state.params.items()} | {f"buffers/{n}": t for n, t in state.buffers.items()}
    return whole | {f"judged/{n}": t for n, t in federation.weights(state).items()}


def batched_equals_loop(subject: Subject) -> None:
    """All clients in one program train as they do one by one."""
    if subject.method.couples:
        return
    gap = _gap(subject.trained, _everything(*_run(subject.make, subject.given, backend="loop")))
    assert gap < CLOSE, f"batched and looped training differ by {gap:.2e}: does a loss mix clients, or branch on data?"


def chunks_change_nothing(subject: Subject) -> None:
    """How many clients train side by side does not matter."""
    gap = _gap(subject.trained, _everything(*_run(subject.make, subject.given, chunk=2)))
    assert gap < CLOSE, (
        f"training in chunks of 2 clients differs by {gap:.2e}: is a mean taken over padding (see `valid`, `mask`)?"
    )


def client_order_changes_nothing(subject: Subject) -> None:
    """Clients listed in another order end with the same weights."""
    order = [3, 0, 4, 2, 1]
    other = _everything(*_run(subject.make, subject.given.pick(order)))
    gap = _gap({n: t[order] for n, t in subject.trained.items()}, other)
    assert gap < CLOSE, f"reordering the clients moves weights by {gap:.2e}: does the server use positions?"


def client_without_windows_contributes_nothing(subject: Subject) -> None:
    """A client that has no training window changes nobody else."""
    if subject.method.couples:
        return
    other = _everything(*_run(subject.make, subject.given.pick([0, 1, 2, 3])))
    gap = _gap({n: t[:4] for n, t in subject.trained.items()}, other)
    assert gap < CLOSE, f"a client without training windows moves others by {gap:.2e}: is it averaged in?"


def resumed_equals_unbroken(subject: Subject) -> None:
    """Saved after each round and loaded anew, training ends bit for bit where unbroken training ends."""
    federation, unbroken = subject.plain
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), "check")
        state = federation.start()
        for _ in range(federation.rounds):
            federation.step(state)
            store.save(state)
            state = store.load(federation.start(), len(federation.task.ids))
    federation.run(state)
    gap = _gap(subject.trained, _everything(federation, state))
    assert gap == 0, (
        f"resumed training differs by {gap:.2e}: is there state outside weights, buffers, moments and server?"
    )
    assert unbroken.best.round == state.best.round, "resumed training selects another round"
    assert _gap(unbroken.best.weights, state.best.weights) == 0, "resumed training judges other weights"


def seed_decides(subject: Subject) -> None:
    """One seed gives identical weights twice; another seed gives others."""
    gap = _gap(subject.trained, _everything(*_run(subject.make, subject.given)))
    assert gap == 0, (
        f"two runs with one seed differ by {gap:.2e}: is there randomness that does not come from the seed?"
    )
    if subject.method.trains:
        other = _gap(subject.trained, _everything(*_run(subject.make, subject.given, seed=4)))
        assert other > 0, "another seed gives the same weights: is the seed used?"


def test_part_is_never_read(subject: Subject) -> None:
    """Other values in the test part change no weight and no selected round."""
    values = subject.given.values.copy()
    values[:, VALIDATION_END:] = 1e6
    other = _run(subject.make, replace(subject.given, values=values))
    gap = _gap(subject.trained, _everything(*other))
    assert gap == 0, f"test values move weights by {gap:.2e}"
    assert subject.plain[1].best.round == other[1].best.round, "test values move the selected round"


def ledger_equals_messages(subject: Subject) -> None:
    """A client that takes part is charged the size of its message, 4 bytes a number; the others nothing."""
    method = subject.method
    if method.couples:
        return
    federation, state = subject.plain
    uploads = any(phase.upload for r in range(federation.rounds) for phase in method.phases(r, federation.rounds))
    size = 0
    if uploads and method.shared and method.upload.__func__ is Method.upload:  # type: ignore[attr-defined]
        everyone = Clients(torch.arange(CLIENTS), torch.ones(CLIENTS), state.params, state.buffers, {})
        size = sum(t[0].numel() for t in method.upload(everyone).values()) * WIRE_BYTES
    up = pd.DataFrame(state.log, columns=["round", "client", "quantity", "value"]).query("quantity == 'bytes_up'")
    assert (up.loc[up["client"] == "e", "value"] == 0).all(), "a client that did not train is charged for an upload"
    others = up.loc[up["client"] != "e", "value"]
    if size:
        expected = {size} if all(p.participation is None for p in method.phases(0, federation.rounds)) else {0, size}
        assert set(others) == expected, f"expected {expected} bytes a client and round, found {sorted(set(others))}"
    elif not uploads:
        assert (others == 0).all(), f"nothing is uploaded, yet bytes are charged: {sorted(set(others))}"


def one_client_needs_no_server(subject: Subject) -> None:
    """With one client, a server that only averages changes nothing: the same steps, the same moments reset."""
    method = subject.method
    if not method.only_averages or method.couples:
        return
    federation, state = _run(subject.make, problem().pick([0]))
    alone = federation.start()
    clients = Clients(torch.arange(1), torch.ones(1), alone.params, alone.buffers, {})
    everyone = Local(torch.arange(1), alone.params, alone.buffers, alone.moments)
    for round_ in range(federation.rounds):
        for phase in method.phases(round_, federation.rounds):
            received = method.download(alone.server, clients) if phase.download else {}
            if round_ == 0:
                for name, value in received.items():
                    alone.params[name].copy_(value)
            federation._ensure_moments(alone, phase)
            for moments in alone.moments.values():
                for key in moments:
                    if key.rsplit("/", 1)[0] in received:
                        moments[key].zero_()
            epochs = PROTOCOL.epochs if phase.epochs is None else phase.epochs
            work = Work(method, federation.skeleton, federation.task, phase, 3, round_, epochs, PROTOCOL.batch)
            train_clients(work, everyone, Ledger(1))
    gap = _gap(state.params | state.buffers, alone.params | alone.buffers)
    assert gap < CLOSE, f"one client with a server differs from one without by {gap:.2e}: set only_averages = False?"


def readings_stay_at_home(subject: Subject) -> None:
    """Until the first aggregation a client's readings move no other client's weights, hence no other upload."""
    if subject.method.couples:
        return
    once = replace(PROTOCOL, rounds=1)
    values = subject.given.values.copy()
    values[1] *= 3
    one, other = (_run(subject.make, g, once)[1] for g in (subject.given, replace(subject.given, values=values)))
    for client in (0, 2, 3, 4):
        gap = _gap({n: t[client] for n, t in one.params.items()}, {n: t[client] for n, t in other.params.items()})
        assert gap == 0, f"client b's readings move client {NAMES[client]} by {gap:.2e} before anything was aggregated"


def influence_runs_along_edges(subject: Subject) -> None:
    """Coupled methods: a client's readings reach others only along declared edges, one hop a round of exchange."""
    method = subject.method
    if not method.couples:
        return
    given = subject.given
    once = replace(PROTOCOL, rounds=1, batch=1000)
    values = given.values.copy()
    values[1] += 3.0 * np.sin(np.arange(STEPS))
    one, other = _run(subject.make, given, once), _run(subject.make, replace(given, values=values), once)
    edges = method.edges(one[0].task)
    reached = {1} | {int(d) for s, d in edges.T.tolist() if s == 1} | {int(s) for s, d in edges.T.tolist() if d == 1}
    for client in set(range(CLIENTS)) - reached:
        gap = _gap({n: t[client] for n, t in one[1].params.items()}, {n: t[client] for n, t in other[1].params.items()})
        assert gap == 0, (
            f"client b moves client {given.ids[client]} by {gap:.2e} in one step, though no edge joins them"
        )


CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        batched_equals_loop,
        chunks_change_nothing,
        client_order_changes_nothing,
        client_without_windows_contributes_nothing,
        resumed_equals_unbroken,
        seed_decides,
        test_part_is_never_read,
        ledger_equals_messages,
        one_client_needs_no_server,
        readings_stay_at_home,
        influence_runs_along_edges,
    )
}


def check_method(make: Factory) -> None:
    """Run every check on the method that ``make`` builds. Raises AssertionError saying what does not hold."""
    subject = Subject(make)
    for check in CHECKS.values():
        check(subject)
