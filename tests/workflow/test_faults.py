"""Full disks, signals and diverging runs: a clear line, nothing false on disk, and a good rerun."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pandas as pd

ONE_RUN = "results/runs/tiny/tiny/atlas/base/seed0/run.json"
SAME = ("weights.safetensors", "run.json")


def same_run(one: Path, other: Path) -> bool:
    """Whether two folders hold the same run, bit for bit."""
    rounds = [pd.read_parquet(folder / "rounds.parquet") for folder in (one, other)]
    return rounds[0].equals(rounds[1]) and all((one / f).read_bytes() == (other / f).read_bytes() for f in SAME)


def test_a_full_disk_is_named_leaves_nothing_and_the_rerun_is_whole(fresh, built) -> None:
    output = fresh.run(ONE_RUN, status=1, before="ulimit -f 64;")
    assert "fedloom: error: " in output
    assert "File too large" in output
    assert not list(fresh.folder("atlas").glob("*"))
    fresh.run(ONE_RUN)
    assert same_run(fresh.folder("atlas"), built.folder("atlas"))


def wait_until_training(state: Path) -> None:
    """Return when a training has begun: it holds the lock of its state."""
    for _ in range(600):
        if (state / "lock").is_file() and (state / "lock").read_text():
            time.sleep(0.3)
            return
        time.sleep(0.1)
    raise TimeoutError(f"{state}: no training began")


def test_a_killed_training_goes_on_and_ends_like_one_never_killed(fresh, tmp_path: Path) -> None:
    fresh.edit("config/scales/tiny.yaml", "rounds: 2", "rounds: 300")
    unbroken = fresh.copy(tmp_path / "unbroken")
    unbroken.run(ONE_RUN)
    state = fresh.root / "results" / "state" / "tiny" / "tiny" / "atlas" / "base" / "seed0"
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = fresh.start(ONE_RUN)
        wait_until_training(state)
        os.killpg(process.pid, number)
        process.communicate()
        assert process.returncode != 0
        assert not (fresh.root / ONE_RUN).exists()
        assert (state / "state.safetensors").is_file()
        (state / "lock").write_text("")
        fresh.run("--unlock")
    fresh.run(ONE_RUN)
    assert pd.read_parquet(fresh.folder("atlas") / "timing.parquet")["rounds"].item() < 300
    assert same_run(fresh.folder("atlas"), unbroken.folder("atlas"))


def test_a_diverging_run_is_named_in_its_tables_and_the_rest_goes_on(built) -> None:
    built.edit("config/scales/tiny.yaml", "fedavg: {lr: 0.001}", "fedavg: {lr: 1.0e+30}")
    built.run()
    record = json.loads((built.folder("fedavg") / "run.json").read_text())
    assert record["verdict"] == "diverged"
    assert "not finite" in record["reason"]
    metrics = pd.read_parquet(built.folder("fedavg") / "metrics.parquet")
    assert metrics["value"].isna().all()
    table = (built.root / "results" / "atlas" / "table1.md").read_text()
    row = next(line for line in table.splitlines() if "FedAvg" in line)
    assert "diverged" in row
    assert "diverged" not in table.replace(row, "")
