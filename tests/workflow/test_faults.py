"""Full disks and signals: a clear line, nothing false on disk, and a good rerun."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

ONE_RUN = "results/runs/tiny/tiny/atlas/base/seed0/run.json"
SAME = ("weights.safetensors", "run.json")


def same_run(one: Path, other: Path) -> bool:
    """Whether two folders hold the same run, bit for bit."""
    rounds = [pd.read_parquet(folder / "rounds.parquet") for folder in (one, other)]
    return rounds[0].equals(rounds[1]) and all((one / f).read_bytes() == (other / f).read_bytes() for f in SAME)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, fresh_project):
    """A project with one run of many rounds, which nothing disturbed."""
    project = fresh_project.copy(tmp_path_factory.mktemp("unbroken") / "project")
    project.edit("config/scales/tiny.yaml", "rounds: 2", "rounds: 300")
    project.run(ONE_RUN)
    return project


@pytest.fixture
def waiting(fresh):
    """The same project before its run."""
    fresh.edit("config/scales/tiny.yaml", "rounds: 2", "rounds: 300")
    return fresh


def test_a_full_disk_is_named_leaves_nothing_and_the_rerun_is_whole(waiting, unbroken) -> None:
    output = waiting.run(ONE_RUN, status=1, before="ulimit -f 64;")
    assert "fedloom: error: " in output
    assert "File too large" in output
    assert not list(waiting.folder("atlas").glob("*"))
    waiting.run(ONE_RUN)
    assert same_run(waiting.folder("atlas"), unbroken.folder("atlas"))


def wait_until_training(state: Path) -> None:
    """Return when a training has begun: it holds the lock of its state."""
    for _ in range(600):
        if (state / "lock").is_file() and (state / "lock").read_text():
            time.sleep(0.3)
            return
        time.sleep(0.1)
    raise TimeoutError(f"{state}: no training began")


def test_a_killed_training_goes_on_and_ends_like_one_never_killed(waiting, unbroken) -> None:
    state = waiting.root / "results" / "state" / "tiny" / "tiny" / "atlas" / "base" / "seed0"
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = waiting.start(ONE_RUN)
        wait_until_training(state)
        os.killpg(process.pid, number)
        process.communicate()
        assert process.returncode != 0
        assert not (waiting.root / ONE_RUN).exists()
        assert (state / "state.safetensors").is_file()
        (state / "lock").write_text("")
        waiting.run("--unlock")
    waiting.run(ONE_RUN)
    assert pd.read_parquet(waiting.folder("atlas") / "timing.parquet")["rounds"].item() < 300
    assert same_run(waiting.folder("atlas"), unbroken.folder("atlas"))
