"""Training state survives what happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from fedloom.artifacts import write_text
from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Phase, Step
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import compact
from fedloom.federation.store import Interrupted, Saver, Store, log_frame
from fedloom.methods.atlas import Atlas


@pytest.fixture
def federation() -> Federation:
    return Federation(Atlas(Atlas.Params(encoder="compact", width=8)), problem().task(), PROTOCOL, seed=0)


def after(federation: Federation, rounds: int) -> State:
    state = federation.start()
    for _ in range(rounds):
        federation.step(state)
    return state


def load(store: Store, federation: Federation) -> State:
    return store.load(federation.start(), len(federation.task.ids))


def test_a_loaded_state_is_the_saved_one(tmp_path: Path, federation: Federation) -> None:
    state = after(federation, 2)
    Store(tmp_path, "one").save(state)
    loaded = load(Store(tmp_path, "one"), federation)
    assert loaded.round == 2
    pd.testing.assert_frame_equal(log_frame(loaded.log), log_frame(state.log))
    assert (loaded.best.round, loaded.best.score) == (state.best.round, state.best.score)
    pairs = [(state.params, loaded.params), (state.server, loaded.server)]
    pairs += list(zip(state.moments.values(), loaded.moments.values(), strict=True))
    for ours, theirs in pairs:
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(t, theirs[n]) for n, t in ours.items())


def test_a_state_of_another_identity_is_set_aside_and_said_so(
    tmp_path: Path, federation: Federation, capfd: pytest.CaptureFixture[str]
) -> None:
    Store(tmp_path, "old").save(after(federation, 1))
    assert load(Store(tmp_path, "new"), federation).round == 0
    assert "state of another spec, data or code set aside" in capfd.readouterr().err
    assert (tmp_path / "state.other").exists()


def test_a_torn_state_falls_back_to_the_copy_before_it(tmp_path: Path, federation: Federation) -> None:
    store = Store(tmp_path, "one")
    store.save(after(federation, 1))
    store.save(after(federation, 2))
    store.path.write_bytes(store.path.read_bytes()[:1000])
    assert load(store, federation).round == 1


def test_a_flipped_byte_is_noticed(tmp_path: Path, federation: Federation) -> None:
    store = Store(tmp_path, "one")
    store.save(after(federation, 1))
    store.save(after(federation, 2))
    content = bytearray(store.path.read_bytes())
    content[-1000] ^= 1
    store.path.write_bytes(bytes(content))
    assert load(store, federation).round == 1


HOLD = "import sys, pathlib; from fedloom.federation.store import Store\n"
HOLD += "with Store(pathlib.Path(sys.argv[1]), 'x').locked(): print('held', flush=True); sys.stdin.read()"


def test_a_second_writer_waits_for_the_first_and_is_told_who_that_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    ended: list[int | None] = []
    killer = threading.Timer(1.0, lambda: (ended.append(holder.poll()), holder.kill()))
    killer.start()
    with Store(tmp_path, "x").locked():
        assert ended == [None]
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
    holder.communicate()
    assert f"waits for process {holder.pid} on " in capfd.readouterr().err


def test_what_a_process_finished_is_known_until_it_or_its_identity_changes(tmp_path: Path) -> None:
    store, weights = Store(tmp_path / "state", "one"), tmp_path / "run" / "weights.safetensors"
    assert not store.finished(weights.parent)
    write_text(weights, "weights")
    store.finish([weights])
    assert store.finished(weights.parent)
    assert not Store(tmp_path / "state", "other").finished(weights.parent)
    weights.write_text("others")
    assert not store.finished(weights.parent)
    weights.unlink()
    assert not store.finished(weights.parent)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.usefixtures("own_signals")
def test_a_signal_saves_after_the_round_and_ends_training(
    tmp_path: Path, federation: Federation, number: signal.Signals
) -> None:
    saver = Saver(Store(tmp_path, "one"), every_seconds=1e9)
    state = federation.start()
    os.kill(os.getpid(), number)
    federation.run(state, saver)
    assert state.round == 1
    assert load(saver.store, federation).round == 1
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


class Lengthy(Atlas):
    """Round 2 would take a day, and tells that it has begun."""

    def steps(self, phase: Phase) -> Sequence[Step]:
        if phase.round == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().steps(phase)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        (usual,) = super().phases(round_, rounds)
        return (replace(usual, epochs=10**6),) if round_ == 2 else (usual,)


@pytest.mark.usefixtures("own_signals")
def test_a_round_that_takes_too_long_is_given_up_for_the_state_before_it(tmp_path: Path) -> None:
    federation = Federation(
        Lengthy(Atlas.Params(encoder="compact", width=8)), problem().task(), replace(PROTOCOL, rounds=4), seed=0
    )
    saver, state, began = Saver(Store(tmp_path, "one"), every_seconds=0, patience=0.5), federation.start(), time.time()
    with pytest.raises(Interrupted) as stopped:
        federation.run(state, saver)
    assert stopped.value.code == 75
    assert time.time() - began < 10
    assert load(saver.store, federation).round == 2


@pytest.mark.usefixtures("own_signals")
def test_every_round_too_long_to_wait_for_is_saved(tmp_path: Path, federation: Federation) -> None:
    saver, state = Saver(Store(tmp_path, "one"), every_seconds=1e9, patience=0.05), federation.start()
    saver(state)
    assert not saver.store.path.exists()
    time.sleep(0.1)
    saver(state)
    assert saver.store.path.exists()


def test_snapshots_are_the_judged_weights_of_their_rounds(federation: Federation) -> None:
    state = federation.start()
    federation.step(state)
    assert not state.snapshots
    federation.step(state)
    expected = compact(federation.weights(state), "round1")
    federation.step(state)
    expected |= compact(federation.weights(state), "round2")
    assert state.snapshots.keys() == expected.keys()
    assert all(torch.equal(t, expected[n]) for n, t in state.snapshots.items())
    shared, own = (state.snapshots[f"round1/{name}"] for name in ("codebook", "decoder.weight"))
    assert (len(shared), len(own)) == (1, len(federation.task.ids))


def test_a_run_without_snapshots_keeps_none() -> None:
    protocol = replace(PROTOCOL, snapshot_every=0)
    off = Federation(Atlas(Atlas.Params(encoder="compact", width=8)), problem().task(), protocol, seed=0)
    assert not after(off, 3).snapshots
