"""Judge a run on the test part: the step ``evaluate`` of the pipeline."""

from pathlib import Path

from fedloom.config.command import of_a_run
from fedloom.errors import main
from fedloom.evaluation.evaluate import evaluate
from fedloom.evaluation.folders import Folders, beside
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, evaluate, write."""
    parser = of_a_run(__doc__, "metrics.parquet")
    parser.add_argument("--truth", type=Path, help="folder of the known truth, where there is one")
    named = "role and data folder of another dataset to read"
    parser.add_argument("--beside", type=beside, default=[], action="append", metavar="ROLE=FOLDER", help=named)
    parser.add_argument("--yardsticks", type=Path, help="folder of what all runs on the dataset are measured against")
    a = parser.parse_args()
    folders = Folders(a.run, a.data, a.partition, a.truth, dict(a.beside), a.yardsticks)
    with device(a.device, a.gpu_memory_mb) as chosen:
        evaluate(folders, a.out or a.run, make, chosen)


if __name__ == "__main__":
    main(run)
