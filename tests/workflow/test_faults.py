"""Full disks and signals: a clear line, nothing false on disk, and a good rerun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.conftest import Project

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


STATE = "results/state/tiny/tiny/atlas/base/seed0"
LOG = "results/logs/train/tiny/tiny/atlas/base/seed0.log"


def trainer(project: Project) -> int:
    """The process that trains, once a round is over: it holds the lock of the run's state, and says so there."""
    lock = project.root / STATE / "lock"
    for _ in range(6000):
        held = re.search(r"process (\d+) on", lock.read_text()) if lock.is_file() else None
        if held and Path("/proc", held.group(1)).exists() and "round " in (project.root / LOG).read_text():
            return int(held.group(1))
        time.sleep(0.1)
    raise TimeoutError(f"{lock}: no training began")


def ended(process: subprocess.Popen[str]) -> int:
    """The exit status of Snakemake, once it has one."""
    process.communicate()
    return process.returncode


def test_killed_trainings_go_on_and_end_like_one_never_killed(waiting, unbroken, tmp_path: Path) -> None:
    state = waiting.root / STATE / "state.safetensors"

    process = waiting.start(ONE_RUN)
    trainer(waiting)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    assert ended(process) != 0
    assert time.monotonic() - began < 30
    assert state.is_file()
    assert not (waiting.root / ONE_RUN).exists()

    process = waiting.start(ONE_RUN)
    trainer(waiting)
    # What a power cut would leave; files that come and go meanwhile may be missing.
    elsewhere = Project(tmp_path / "elsewhere")
    subprocess.run(["cp", "--archive", waiting.root, elsewhere.root], check=False, capture_output=True)
    os.killpg(process.pid, signal.SIGKILL)
    assert ended(process) != 0
    waiting.run("--unlock")

    process = waiting.start(ONE_RUN)
    os.kill(trainer(waiting), signal.SIGKILL)
    assert ended(process) == 1
    assert not (waiting.root / ONE_RUN).exists()

    for project in (waiting, elsewhere):
        project.run("--unlock")
        project.run(ONE_RUN)
        assert pd.read_parquet(project.folder("atlas") / "timing.parquet")["rounds"].item() < 300
        assert same_run(project.folder("atlas"), unbroken.folder("atlas"))


def test_an_orphaned_training_and_its_successor_never_write_one_folder_together(waiting, unbroken) -> None:
    process = waiting.start(ONE_RUN)
    orphan = trainer(waiting)
    os.kill(orphan, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    waiting.run("--unlock")
    successor = waiting.start(ONE_RUN)
    log = waiting.root / LOG
    waits = f"waits for process {orphan} on "
    try:
        while not (log.is_file() and waits in log.read_text()):
            assert successor.poll() is None
            time.sleep(0.1)
        assert not list(waiting.folder("atlas").glob("*"))
    finally:
        os.kill(orphan, signal.SIGCONT)
    assert ended(successor) == 0
    assert "trained by a process that outlived its Snakemake" in log.read_text()
    assert same_run(waiting.folder("atlas"), unbroken.folder("atlas"))
    assert "Nothing to be done" in waiting.run(ONE_RUN)
