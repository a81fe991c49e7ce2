"""Judge a run with noise on what its clients share: the step ``disturb`` of the pipeline."""

import json

from fedloom.config.checks import check
from fedloom.config.command import of_a_run
from fedloom.errors import main
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.noise import CodebookNoise, disturb
from fedloom.federation.devices import device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, judge, write."""
    parser = of_a_run(__doc__, "noisy.parquet")
    parser.add_argument("--settings", required=True, help="which noise and how often, as JSON")
    a = parser.parse_args()
    settings = check(CodebookNoise, json.loads(a.settings), "--settings")
    folders = Folders(a.run, a.data, a.partition)
    with device(a.device, a.gpu_memory_mb) as chosen:
        disturb(folders, a.out or a.run, make, settings, chosen)


if __name__ == "__main__":
    main(run)
