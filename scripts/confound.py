"""Simulate confounded clients on a run's panel: the step ``confound`` of the pipeline."""

import json

from fedloom.config.checks import check
from fedloom.config.command import of_a_run
from fedloom.errors import main
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.leakage import confound
from fedloom.evaluation.forecast.proposition import Confounding


def run() -> None:
    """Read the arguments, simulate, write."""
    parser = of_a_run(__doc__, "leakage.parquet", device=False)
    parser.add_argument("--settings", required=True, help="how the simulation runs, as JSON")
    a = parser.parse_args()
    settings = check(Confounding, json.loads(a.settings), "--settings")
    confound(Folders(a.run, a.data, a.partition), a.out or a.run, settings)


if __name__ == "__main__":
    main(run)
