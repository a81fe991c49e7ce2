"""Compute what every run on a dataset is measured against: the step ``yardsticks`` of the pipeline."""

import argparse
from pathlib import Path

from fedloom.errors import main
from fedloom.evaluation.causal.yardsticks import make_yardsticks, write_yardsticks


def run() -> None:
    """Read the arguments, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the trajectories")
    parser.add_argument("--partition", type=Path, required=True, help="folder of the partition")
    parser.add_argument("--seed", type=int, required=True, help="seed of the runs that are measured")
    parser.add_argument("--out", type=Path, required=True, help="folder of the yardsticks")
    a = parser.parse_args()
    write_yardsticks(make_yardsticks(a.data, a.partition, a.seed), a.out)


if __name__ == "__main__":
    main(run)
