"""Simulate confounded clients on a run's panel: the step ``confound`` of the pipeline."""

import argparse
import json
from pathlib import Path

from fedloom.config.checks import check
from fedloom.errors import main
from fedloom.evaluation.folders import Folders
from fedloom.evaluation.forecast.leakage import confound
from fedloom.evaluation.forecast.proposition import Confounding


def run() -> None:
    """Read the arguments, simulate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="how the simulation runs, as JSON")
    parser.add_argument("--run", type=Path, required=True, help="folder of the run, whose seed is taken")
    parser.add_argument("--data", type=Path, required=True, help="folder of its panel")
    parser.add_argument("--partition", type=Path, required=True, help="folder of its partition")
    parser.add_argument("--out", type=Path, help="where leakage.parquet goes (the run's folder, if not given)")
    a = parser.parse_args()
    settings = check(Confounding, json.loads(a.settings), "--settings")
    confound(Folders(a.run, a.data, a.partition), a.out or a.run, settings)


if __name__ == "__main__":
    main(run)
