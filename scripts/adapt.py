"""Let the model of a run learn one epoch from each held-out set and judge it: the step ``adapt`` of the pipeline."""

import argparse
import json
from pathlib import Path

from fedloom.errors import main
from fedloom.evaluation.folders import Folders, beside
from fedloom.evaluation.series.adapted import adapt
from fedloom.evaluation.series.finetune import Adaptation
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, adapt, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="how models learn from held-out sets, as JSON")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the series that the run was trained on")
    parser.add_argument("--partition", type=Path, required=True, help="folder of their partition")
    named = "other data that evaluation reads: targets"
    parser.add_argument("--beside", type=beside, default=[], action="append", metavar="ROLE=FOLDER", help=named)
    parser.add_argument("--out", type=Path, help="where adapted.parquet goes (the run's folder, if not given)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--gpu-memory-mb", type=int, default=0, help="GPU memory that the job needs, 0 for a whole GPU")
    a = parser.parse_args()
    folders = Folders(a.run, a.data, a.partition, beside=dict(a.beside))
    with device(a.device, a.gpu_memory_mb) as chosen:
        adapt(folders, a.out or a.run, make, Adaptation(**json.loads(a.settings)), chosen)


if __name__ == "__main__":
    main(run)
