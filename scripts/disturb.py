"""Judge a run with noise on what its clients share: the step ``disturb`` of the pipeline."""

import argparse
import json
from pathlib import Path

from fedloom.config.checks import check
from fedloom.errors import main
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.noise import CodebookNoise, disturb
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="which noise and how often, as JSON")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the panel that the run was trained on")
    parser.add_argument("--partition", type=Path, required=True, help="folder of its partition")
    parser.add_argument("--out", type=Path, help="where noisy.parquet goes (the run's folder, if not given)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--gpu-memory-mb", type=int, default=0, help="GPU memory that the job needs, 0 for a whole GPU")
    a = parser.parse_args()
    settings = check(CodebookNoise, json.loads(a.settings), "--settings")
    folders = Folders(a.run, a.data, a.partition)
    with device(a.device, a.gpu_memory_mb) as chosen:
        disturb(folders, a.out or a.run, make, settings, chosen)


if __name__ == "__main__":
    main(run)
