"""A long panel judged as a stream: seconds and peak memory of the step, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch

from bench.panels import noisy_panel
from fedloom.library import train

ROOT = Path(__file__).resolve().parents[1]


def evaluation(nodes: int, lengths: list[int], device: str) -> pd.DataFrame:
    """One row a length of the panel: the whole of its test part judged after one round of training."""
    rows = []
    for steps in lengths:
        with TemporaryDirectory() as folder:
            root = Path(folder)
            protocol = {"rounds": 1, "train_stride": 500, "validation_stride": 500}
            train(
                noisy_panel(nodes, steps), "fedavg", model={"encoder": "compact"}, protocol=protocol,
                device=device, out=root,
            )  # fmt: skip
            run, data = root / "runs/library/bench/fedavg/base/seed0", root / "data/bench"
            asked = ["--run", run, "--data", data / "panel", "--partition", data / "partition", "--device", device]
            seconds, peak = _own_process([str(ROOT / "scripts/evaluate.py"), *map(str, asked)])
            rows.append({"nodes": nodes, "steps": steps, "seconds": seconds, "peak_megabytes": peak})
            print(json.dumps(rows[-1]), flush=True)
    return pd.DataFrame(rows).assign(device=device, threads=torch.get_num_threads())


def _own_process(script: list[str]) -> tuple[float, float]:
    """Seconds and peak memory in MB of a script."""
    begun = time.perf_counter()
    told = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen([sys.executable, *script], env=told)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, script)
    return time.perf_counter() - begun, used.ru_maxrss * 1024 / 1e6
