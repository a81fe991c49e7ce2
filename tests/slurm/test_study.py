"""A study through the scheduler, with a training that is killed on its way, is the study that one machine makes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.slurm.cluster import ask
from tests.workflow.conftest import Project

STATE = "results/state/tiny/tiny/atlas/base/seed0"
# Checks by the second: tests wait for jobs of seconds.
GENERIC = ("--profile", "profiles/cluster-generic", "--seconds-between-status-checks", "1")
SLURM = ("--profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "5")
# Rules that use a GPU ask for one; where CUDA shows none, they compute without.
GPU = ("--set-resources", "train:gpu=1", "train:mem_mb=2000", "train:runtime=10")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, fresh_project: Project) -> Project:
    """A project with one run that takes a while and one that does not, and every kind of artifact."""
    project = fresh_project.copy(tmp_path_factory.mktemp("small") / "project")
    project.edit("config/scales/tiny.yaml", "rounds: 2", "rounds: 300")
    project.edit("config/scales/tiny.yaml", "[atlas, fedavg, persistence]", "[atlas, persistence]")
    scale = project.root / "config" / "scales" / "tiny.yaml"
    scale.write_text(scale.read_text().partition("      ablation:")[0])
    return project


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory, small: Project) -> Project:
    """The same, run on this machine."""
    project = small.copy(tmp_path_factory.mktemp("local") / "project")
    project.run()
    return project


def until(what: str, process: subprocess.Popen[str], holds: Callable[[], object]) -> None:
    """Return once ``holds()``; fail where Snakemake ends before, or after ten minutes."""
    for _ in range(3000):
        if holds():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.2)
    raise TimeoutError(what)


def training_job(lock: Path) -> str:
    """The id of the job that trains, by the process that holds the lock of the run's state; "" while there is none."""
    held = re.search(r"process (\d+) on", lock.read_text()) if lock.is_file() else None
    environment = Path("/proc", held.group(1), "environ") if held else None
    found = re.search(rb"\0SLURM_JOB_ID=(\d+)\0", environment.read_bytes()) if environment else None
    return found.group(1).decode() if found else ""


def files(root: Path) -> dict[str, bytes]:
    """Path -> content of all that a study prints, but for measured times, and of weights and verdicts."""
    paths = [*root.glob("results/atlas/*.[cmtp][sdenx]*"), *root.glob("results/runs/**/weights.safetensors")]
    paths += root.glob("results/runs/**/run.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.stem != "table_cost"}


def same_tables(root: Path, other: Path) -> bool:
    """Whether rounds and metrics of all runs, and those of the study, are the same numbers."""
    ours, theirs = (
        {path.relative_to(each): pd.read_parquet(path) for path in sorted(each.glob("results/**/*.parquet"))}
        for each in (root, other)
    )
    compared = [path for path in ours if path.stem in ("rounds", "metrics")]
    return ours.keys() == theirs.keys() and all(ours[path].equals(theirs[path]) for path in compared)


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("profile", [GENERIC, pytest.param(SLURM, marks=pytest.mark.slow)], ids=["generic", "slurm"])
def test_a_study_with_a_killed_training_ends_like_one_on_this_machine(
    tmp_path: Path, small: Project, local: Project, profile: tuple[str, ...]
) -> None:
    project = small.copy(tmp_path / "project")
    process = project.start(*profile, *GPU)
    try:
        lock = project.root / STATE / "lock"
        until("no training began", process, lambda: training_job(lock))
        job = training_job(lock)
        assert "gpu:1" in ask("scontrol", "show", "job", job)
        log = project.root / "results" / "logs" / "train" / "tiny" / "tiny" / "atlas" / "base" / "seed0.log"
        until("no round was over", process, lambda: "round " in log.read_text())
        ask("scancel", job)
        state = lock.with_name("state.safetensors")
        until("no state was saved", process, state.is_file)
        output, _ = process.communicate()
        assert process.returncode == 0, output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert "Error in rule train" in output
    rounds = pd.read_parquet(project.folder("atlas") / "timing.parquet")["rounds"].item()
    assert 0 < rounds < 300
    ours = files(project.root)
    assert {Path(name).suffix for name in ours} == {".csv", ".md", ".tex", ".pdf", ".png", ".safetensors", ".json"}
    assert ours == files(local.root)
    assert same_tables(project.root, local.root)
    assert (project.root / "results" / "report.html").is_file()
    assert "Nothing to be done" in project.run(*profile)
