"""Let the model of a run learn one epoch from each held-out set and judge it: the step ``adapt`` of the pipeline."""

import json

from fedloom.config.checks import check
from fedloom.config.command import of_a_run
from fedloom.errors import main
from fedloom.evaluation.folders import Folders, beside
from fedloom.evaluation.series.adapted import adapt
from fedloom.evaluation.series.finetune import Adaptation
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, adapt, write."""
    parser = of_a_run(__doc__, "adapted.parquet")
    parser.add_argument("--settings", required=True, help="how models learn from held-out sets, as JSON")
    named = "other data that evaluation reads: targets"
    parser.add_argument("--beside", type=beside, default=[], action="append", metavar="ROLE=FOLDER", help=named)
    a = parser.parse_args()
    settings = check(Adaptation, json.loads(a.settings), "--settings")
    folders = Folders(a.run, a.data, a.partition, beside=dict(a.beside))
    with device(a.device, a.gpu_memory_mb) as chosen:
        adapt(folders, a.out or a.run, make, settings, chosen)


if __name__ == "__main__":
    main(run)
