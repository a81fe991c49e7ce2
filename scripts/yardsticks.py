"""Compute what every run on a dataset is measured against: the step ``yardsticks`` of the pipeline."""

import argparse
from pathlib import Path

import torch

from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import main
from fedloom.evaluation.causal.judge import Judge
from fedloom.evaluation.causal.yardsticks import write_yardsticks
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.trajectory import TrajectoryTask


def run() -> None:
    """Read the arguments, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the trajectories")
    parser.add_argument("--partition", type=Path, required=True, help="folder of the partition")
    parser.add_argument("--seed", type=int, required=True, help="seed of the runs that are measured")
    parser.add_argument("--out", type=Path, required=True, help="folder of the yardsticks")
    a = parser.parse_args()
    task = TrajectoryTask.read(a.data, a.partition, Protocol(), torch.device("cpu"))
    write_yardsticks(Judge.of(task, read_trajectories(a.data), None).yardsticks(a.seed), a.out)


if __name__ == "__main__":
    main(run)
