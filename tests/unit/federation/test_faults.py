"""Faults of uploads: what arrives, what is charged, and what an interruption may not change."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedloom.check.problems.forecast import ForecastProblem
from fedloom.check.problems.trajectory import TrajectoryProblem
from fedloom.errors import InputError
from fedloom.federation.faults import Faults, Site, arriving, garbage_clients, gone
from fedloom.federation.method import Method, Uploads
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import client_keys
from fedloom.federation.robust import ServerRule
from fedloom.federation.rounds import Federation, State
from fedloom.federation.store import Store, log_frame
from fedloom.methods import registry
from fedloom.methods.atlas import Atlas
from fedloom.methods.fed_causaldiff import FedCausalDiff
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.registry import get
from fedloom.models.forecaster import Forecaster

PLAIN = Protocol(rounds=4, batch=16, train_stride=2, precision="float64")
MEDIAN = ServerRule("median")
KEYS = client_keys([f"client {i}" for i in range(50)])


def atlas() -> Method:
    return Atlas(Atlas.Params(encoder="compact", width=8, depth=1, prototypes=4))


def fedavg() -> Method:
    return FedAvg(model=Forecaster(Forecaster.Params(encoder="compact", width=8, depth=1)))


BOTH = pytest.mark.parametrize("make", [atlas, fedavg])


def federation(method: Method, faults: Faults, rule: ServerRule | None = None, **how: Any) -> Federation:
    protocol = replace(PLAIN, faults=faults, server_rule=rule or ServerRule())
    return Federation(method, ForecastProblem.small().task(protocol), protocol, 3, **how)


def trained(method: Method, faults: Faults, rule: ServerRule | None = None, **how: Any) -> State:
    made = federation(method, faults, rule, **how)
    return made.run(made.start())


def tensors(state: State) -> dict[str, Tensor]:
    return {f"{part}/{n}": t for part in ("params", "buffers", "server") for n, t in getattr(state, part).items()}


def same(one: State, other: State) -> bool:
    pairs = tensors(one), tensors(other)
    return pairs[0].keys() == pairs[1].keys() and all(torch.equal(pairs[0][n], pairs[1][n]) for n in pairs[0])


def site(round_: int, rows: list[int] | None = None) -> Site:
    return Site(KEYS, torch.arange(len(KEYS)) if rows is None else torch.tensor(rows), 3, round_, "train")


def messages(round_: int, count: int = len(KEYS)) -> dict[str, Tensor]:
    return {"a": torch.randn(count, 3, generator=torch.Generator().manual_seed(round_))}


# -- what arrives ----------------------------------------------------------------------------------------------------


@BOTH
def test_without_faults_nothing_changes(make: Any) -> None:
    bare = replace(PLAIN)
    plain = Federation(make(), ForecastProblem.small().task(bare), bare, 3)
    unbroken = plain.run(plain.start())
    other = trained(make(), Faults(lag=7, filled_with="huge"))
    assert same(unbroken, other)
    assert log_frame(unbroken.log).equals(log_frame(other.log))


def test_about_the_asked_share_is_lost_and_a_lower_rate_hits_some_of_the_same() -> None:
    lost = {share: gone(Faults(lost=share), site(1)) for share in (0.2, 0.6)}
    assert 0.05 < lost[0.2].double().mean() < 0.4
    assert 0.4 < lost[0.6].double().mean() < 0.8
    assert not (lost[0.2] & ~lost[0.6]).any()
    assert not torch.equal(gone(Faults(lost=0.6), site(2)), lost[0.6])


def test_who_is_hit_does_not_depend_on_who_else_takes_part() -> None:
    faults = Faults(lost=0.5)
    assert torch.equal(gone(faults, site(4, [7, 3, 40])), gone(faults, site(4))[[7, 3, 40]])


def test_a_late_upload_is_what_was_sent_so_many_uploads_earlier() -> None:
    faults, memory = Faults(late=0.5, lag=2), {}
    sent = [messages(r) for r in range(6)]
    for r in range(6):
        late = site(r).hit("late", 0.5)
        arrives, received, memory = arriving(faults, site(r), sent[r], memory)
        assert torch.equal(arrives, ~late if r < 2 else torch.ones_like(late))
        assert torch.equal(received["a"][~late], sent[r]["a"][~late])
        if r >= 2:
            assert late.any()
            assert torch.equal(received["a"][late], sent[r - 2]["a"][late])


def test_uploads_are_counted_by_client_where_few_take_part() -> None:
    faults, memory, rounds = Faults(late=1.0, lag=1), {}, [[0, 1], [0], [1, 2], [0, 1]]
    history: dict[int, Tensor] = {}
    for r, rows in enumerate(rounds):
        sent = messages(r, len(rows))
        arrives, received, memory = arriving(faults, site(r, rows), sent, memory)
        assert arrives.tolist() == [row in history for row in rows]
        for place, row in enumerate(rows):
            if row in history:
                assert torch.equal(received["a"][place], history[row])
            history[row] = sent["a"][place]


def test_a_late_upload_is_one_of_the_same_phase() -> None:
    faults, memory = Faults(late=1.0, lag=1), {}
    sent = {"first": {"a": messages(0)["a"]}, "second": {"b": messages(1)["a"]}}
    for r in range(2):
        for phase, message in sent.items():
            arrives, received, memory = arriving(faults, site(r)._replace(phase=phase), message, memory)
            assert arrives.all() if r else not arrives.any()
    assert torch.equal(received["b"], sent["second"]["b"])


def test_a_method_whose_phases_change_meets_late_uploads() -> None:
    protocol = replace(PLAIN, faults=Faults(late=0.5, lag=1))
    made = Federation(FedCausalDiff(), TrajectoryProblem.small().task(protocol), protocol, 3)
    state = made.run(made.start())
    assert state.diverged is None
    assert len({name.split("/")[1] for name in state.held_up}) > 1


def test_what_was_lost_does_not_arrive_late() -> None:
    faults, memory = Faults(lost=0.5, late=1.0, lag=1), {}
    history: dict[int, Tensor] = {}
    for r in range(5):
        sent, lost = messages(r), gone(faults, site(r))
        arrives, received, memory = arriving(faults, site(r), sent, memory)
        for row in range(len(KEYS)):
            assert bool(arrives[row]) == (not lost[row] and row in history)
            if arrives[row]:
                assert torch.equal(received["a"][row], history[row])
            if not lost[row]:
                history[row] = sent["a"][row]


def test_the_same_clients_send_garbage_in_all_rounds() -> None:
    faults = Faults(garbage=0.1)
    bad = garbage_clients(faults, site(0))
    assert bad.sum() == 5
    for r in range(3):
        arrives, received, _ = arriving(faults, site(r), messages(r), {})
        assert arrives.all()
        assert torch.equal(received["a"].isnan().all(1), bad)
        assert torch.equal(received["a"][~bad], messages(r)["a"][~bad])


def test_huge_garbage_is_finite_and_another_in_every_round() -> None:
    faults = Faults(garbage=0.1, filled_with="huge")
    bad = garbage_clients(faults, site(0))
    one, other = (arriving(faults, site(r), messages(r), {})[1]["a"][bad] for r in (0, 1))
    assert torch.isfinite(one).all()
    assert 1e5 < one.abs().median() < 1e7
    assert not torch.equal(one, other)


def test_whole_numbers_are_never_garbage() -> None:
    sent = messages(0) | {"slot": torch.arange(len(KEYS))}
    assert torch.equal(arriving(Faults(garbage=1.0), site(0), sent, {})[1]["slot"], sent["slot"])


# -- a run -----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_server_that_hears_nothing_stays_as_it_was(make: Any) -> None:
    state = federation(make(), Faults(lost=1.0)).start()
    drawn = {n: t.clone() for n, t in state.server.items()}
    end = trained(make(), Faults(lost=1.0))
    assert end.diverged is None
    assert all(torch.equal(end.server[n], drawn[n]) for n in drawn)


@BOTH
def test_the_aggregate_goes_on_with_those_that_sent(make: Any) -> None:
    heard: list[list[int]] = []

    class Listening(type(make())):  # type: ignore[misc]
        name, cite = "listening", "a test"

        def aggregate(self, server: dict[str, Tensor], uploads: Uploads) -> dict[str, Tensor]:
            heard.append(uploads.positions.sort().values.tolist())
            return super().aggregate(server, uploads)

    given = make()
    made = federation(Listening(given.params, given.model), Faults(lost=0.5))
    state = made.run(made.start())
    keys, four = made.task.keys, torch.arange(4)  # the fifth client has no training window
    stays = [four[~gone(Faults(lost=0.5), Site(keys, four, 3, r, "train"))].tolist() for r in range(4)]
    assert heard == [who for who in stays if who]
    up = {(r, made.task.ids.index(c)): v for r, c, quantity, v in state.log if quantity == "bytes_up"}
    down = {(r, made.task.ids.index(c)): v for r, c, quantity, v in state.log if quantity == "bytes_down"}
    assert all((up[r, c] > 0) == (c in stays[r]) for r in range(4) for c in range(5))
    assert all(down[r, c] > 0 for r in range(4) for c in range(4))


@BOTH
def test_late_uploads_and_garbage_are_charged_as_what_they_replace(make: Any) -> None:
    def bytes_of(state: State) -> list[Any]:
        return [entry for entry in state.log if entry[2].startswith("bytes")]

    faults = Faults(late=0.5, lag=1, garbage=0.2, filled_with="huge")
    assert bytes_of(trained(make(), faults, MEDIAN)) == bytes_of(trained(make(), Faults()))


@BOTH
def test_not_a_number_ends_the_run_as_diverged_and_is_never_averaged(make: Any) -> None:
    made = federation(make(), Faults(garbage=0.2))
    drawn = made.start()
    state = made.run(made.start())
    assert state.diverged is not None
    assert state.diverged.startswith("upload of client")
    assert state.diverged.endswith("is not finite in round 0")
    assert all(torch.equal(state.server[n], drawn.server[n]) for n in drawn.server)


@BOTH
@pytest.mark.parametrize("kind", ["median", "trimmed", "clip"])
def test_rules_put_aside_what_is_not_a_number(make: Any, kind: Any) -> None:
    state = trained(make(), Faults(garbage=0.2), ServerRule(kind))
    assert state.diverged is None
    assert all(torch.isfinite(t).all() for t in state.server.values() if t.is_floating_point())


@BOTH
def test_huge_numbers_carry_the_mean_away_and_not_the_median(make: Any) -> None:
    faults = Faults(garbage=0.2, filled_with="huge")

    def largest(state: State) -> float:
        return max(float(t.abs().max()) for t in state.server.values() if t.is_floating_point())

    assert largest(trained(make(), faults)) > 1e4
    assert largest(trained(make(), faults, MEDIAN)) < 10


@pytest.mark.parametrize("faults", [Faults(lost=0.5), Faults(late=0.6, lag=1), Faults(garbage=0.2)])
@pytest.mark.parametrize("how", [{"backend": "loop"}, {"chunk": 1}])
@BOTH
def test_backend_and_chunks_change_nothing(make: Any, faults: Faults, how: dict[str, Any]) -> None:
    one, other = tensors(trained(make(), faults, MEDIAN)), tensors(trained(make(), faults, MEDIAN, **how))
    assert all(torch.allclose(one[n].double(), other[n].double(), rtol=0, atol=1e-9) for n in one)


@BOTH
def test_interrupted_after_every_round_it_ends_in_the_same_bits(make: Any, tmp_path: Path) -> None:
    faults = Faults(lost=0.3, late=0.5, lag=2, garbage=0.2, filled_with="huge")
    made, store = federation(make(), faults, MEDIAN), Store(tmp_path, "one")
    unbroken = made.run(made.start())
    state = made.start()
    for _ in range(made.rounds):
        made.step(state)
        store.save(state)
        state = store.load(made.start(), len(made.task.ids))
    assert same(unbroken, state)
    assert log_frame(unbroken.log).equals(log_frame(state.log))
    assert all(torch.equal(t, state.held_up[n]) for n, t in unbroken.held_up.items())
    assert unbroken.held_up


@pytest.mark.gpu
@BOTH
def test_on_cuda_the_same_uploads_fail(make: Any) -> None:
    faults = Faults(lost=0.3, late=0.5, lag=1, garbage=0.2, filled_with="huge")
    protocol, ends = replace(PLAIN, faults=faults, server_rule=MEDIAN), []
    for device in ("cpu", "cuda"):
        made = Federation(make(), ForecastProblem.small().task(protocol, device), protocol, 3)
        ends.append({n: t.cpu() for n, t in made.run(made.start()).server.items()})
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, rtol=1e-7, atol=1e-7)


def test_worlds_learn_while_clients_drop_out() -> None:
    protocol = replace(PLAIN, rounds=1, faults=Faults(lost=0.4))
    made = Federation(FedCausalDiff(), TrajectoryProblem.small().task(protocol), protocol, 3)
    assert made.run(made.start()).diverged is None


def test_uploads_cannot_be_lost_where_clients_meet_inside_the_model() -> None:
    coupled = next(name for name in registry.names() if get(name).couples and not get(name).takes_model)
    protocol = replace(PLAIN, faults=Faults(lost=0.1))
    with pytest.raises(InputError, match=r"protocol.faults: expected a method whose clients only send uploads, found"):
        Federation(get(coupled)(), ForecastProblem.small(equal=True).task(protocol), protocol, 1)


# -- settings --------------------------------------------------------------------------------------------------------


def test_a_protocol_is_read_back_from_plain_data() -> None:
    protocol = replace(PLAIN, faults=Faults(late=0.2), server_rule=ServerRule("trimmed", trim=0.3))
    assert Protocol(**asdict(protocol)) == protocol


def test_shares_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"faults.lost: expected a share in \[0, 1\], found 1.5"):
        Faults(lost=1.5)
    with pytest.raises(ValueError, match=r"faults.lag: expected at least 1 upload, found 0"):
        Faults(lag=0)
