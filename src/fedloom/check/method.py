"""``check_method``: the properties that every method must have, run on a small problem of its family in float64.

A method's author calls it in a test; each failure says in words what does not hold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from fedloom.check.places import Watched
from fedloom.check.problem import CLIENTS, NAMES, PROTOCOL, Problem
from fedloom.check.problems.registry import problem_for
from fedloom.federation.exchange import WIRE_BYTES, Ledger
from fedloom.federation.faults import HUGE, Faults
from fedloom.federation.local import Local, train_clients
from fedloom.federation.method import Clients, Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.robust import ServerRule
from fedloom.federation.rounds import Federation, State
from fedloom.federation.store import Store
from fedloom.methods import registry

CLOSE = 1e-9

Factory = Callable[[], Method]


def family_of(method: Method) -> str:
    """The family of tasks that a method learns; that of its client model where it learns any."""
    return method.family or method.model.family


class Subject:
    """A method under check: how to make it, and its plain run, trained once for all checks."""

    def __init__(self, make: Factory) -> None:
        self.make = make
        self.method = make()
        self.given = problem_for(family_of(self.method), self.method.couples)

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


def places_keep_the_contract(subject: Subject) -> None:
    """Every place gives back what the contract says: names that exist, shapes that fit, numbers that are finite."""
    once = replace(PROTOCOL, rounds=2)
    federation, state = _run(lambda: Watched(subject.make(), subject.given.answer).method, subject.given, once, chunk=2)
    assert state.diverged is None, f"{subject.method.name}: {state.diverged}"
    federation.method.parameters(federation.task, federation.skeleton)


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
    moved = {n: t if subject.method.central else t[order] for n, t in subject.trained.items()}
    gap = _gap(moved, other)
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
    assert _gap(unbroken.snapshots, state.snapshots) == 0, "resumed training keeps other snapshots"


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
    other = _run(subject.make, subject.given.spoiled_test())
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
    federation, state = _run(subject.make, subject.given.pick([0]))
    alone = federation.start()
    clients = Clients(torch.arange(1), torch.ones(1), alone.params, alone.buffers, {})
    everyone = Local(torch.arange(1), alone.params, alone.buffers, alone.moments)
    for round_ in range(federation.rounds):
        for planned in method.phases(round_, federation.rounds):
            work = federation.work(planned, round_)
            phase = work.phase
            received = method.download(alone.server, clients) if phase.download else {}
            if round_ == 0:
                for name, value in received.items():
                    (alone.params | alone.buffers)[name].copy_(value)
            federation._ensure_moments(alone, phase)
            for moments in alone.moments.values():
                for key in moments:
                    if key.rsplit("/", 1)[0] in received:
                        moments[key].zero_()
            train_clients(work, everyone, Ledger(1))
    gap = _gap(state.params | state.buffers, alone.params | alone.buffers)
    assert gap < CLOSE, f"one client with a server differs from one without by {gap:.2e}: set only_averages = False?"


def median_holds_garbage_back(subject: Subject) -> None:
    """Where the server says that it averages, a rule in the mean's place keeps one client's garbage from the others."""
    if not subject.method.averages_uploads or subject.method.couples:
        return
    faults, rule = Faults(garbage=1 / CLIENTS, filled_with="huge"), ServerRule("median")
    _, state = _run(subject.make, subject.given, replace(PROTOCOL, faults=faults, server_rule=rule))
    assert state.diverged is None, f"{subject.method.name}: {state.diverged}"
    for name, value in state.server.items():
        largest = float(value.double().abs().max()) if value.numel() else 0.0
        assert largest < HUGE / 100, f"one client's garbage reaches {name}: is a mean taken without `uploads.means`?"


def readings_stay_at_home(subject: Subject) -> None:
    """Until the first aggregation a client's readings move no other client's weights, hence no other upload."""
    if subject.method.couples:
        return
    once = replace(PROTOCOL, rounds=1)
    one, other = (_run(subject.make, g, once)[1] for g in (subject.given, subject.given.disturbed(1)))
    for client in (0, 2, 3, 4):
        gap = _gap({n: t[client] for n, t in one.params.items()}, {n: t[client] for n, t in other.params.items()})
        assert gap == 0, f"client b's readings move client {NAMES[client]} by {gap:.2e} before anything was aggregated"


def influence_runs_along_edges(subject: Subject) -> None:
    """Coupled methods: in one step a client's readings reach others only along declared edges.

    Forward to its receivers, and back from them to all whose messages they read, too.
    """
    method = subject.method
    if not method.couples or method.central:
        return
    once = replace(PROTOCOL, rounds=1, batch=1000)
    one, other = _run(subject.make, subject.given, once), _run(subject.make, subject.given.disturbed(1), once)
    edges = method.edges(one[0].task)
    pairs = edges.T.tolist()
    receivers = {1} | {d for s, d in pairs if s == 1}
    reached = receivers | {s for s, d in pairs if d in receivers}
    for client in set(range(CLIENTS)) - reached:
        gap = _gap({n: t[client] for n, t in one[1].params.items()}, {n: t[client] for n, t in other[1].params.items()})
        assert gap == 0, f"client b moves client {NAMES[client]} by {gap:.2e} in one step, though no edge joins them"


def _made(name: str, params: Mapping[str, Any], family: str) -> Method:
    kind = registry.get(name)
    settings = registry.parameters(kind.Params, dict(params), f"method {name}")
    return kind(settings, problem_for(kind.family or family).model() if kind.takes_model else None)


CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        places_keep_the_contract,
        batched_equals_loop,
        chunks_change_nothing,
        client_order_changes_nothing,
        client_without_windows_contributes_nothing,
        resumed_equals_unbroken,
        seed_decides,
        test_part_is_never_read,
        ledger_equals_messages,
        one_client_needs_no_server,
        median_holds_garbage_back,
        readings_stay_at_home,
        influence_runs_along_edges,
    )
}


def check_method(method: str | Factory, params: Mapping[str, Any] | None = None, family: str = "forecast") -> None:
    """Run every check on a method: a registered one by its name, or what a function without arguments makes.

    One by its name has ``params``, or its defaults; where it learns any client model, it gets the small one of
    ``family``.

    Raises AssertionError saying what does not hold, InputError for an unknown name, parameter or family.
    """
    subject = Subject(partial(_made, method, params or {}, family) if isinstance(method, str) else method)
    for check in CHECKS.values():
        check(subject)
