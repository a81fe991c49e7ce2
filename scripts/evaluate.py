"""Judge a run on the test part: the step ``evaluate`` of the pipeline."""

import argparse
from pathlib import Path

from fedloom.errors import main
from fedloom.evaluation.evaluate import evaluate
from fedloom.evaluation.folders import Folders, beside
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the panel or trajectories")
    parser.add_argument("--partition", type=Path, required=True, help="folder of the partition")
    parser.add_argument("--truth", type=Path, help="folder of the known truth, where there is one")
    named = "role and data folder of another dataset to read"
    parser.add_argument("--beside", type=beside, default=[], action="append", metavar="ROLE=FOLDER", help=named)
    parser.add_argument("--yardsticks", type=Path, help="folder of what all runs on the dataset are measured against")
    parser.add_argument("--out", type=Path, help="where the metrics go (the run's folder, if not given)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--gpu-memory-mb", type=int, default=0, help="GPU memory that the job needs, 0 for a whole GPU")
    a = parser.parse_args()
    folders = Folders(a.run, a.data, a.partition, a.truth, dict(a.beside), a.yardsticks)
    with device(a.device, a.gpu_memory_mb) as chosen:
        evaluate(folders, a.out or a.run, make, chosen)


if __name__ == "__main__":
    main(run)
