"""Split trajectories into parts and deal them to clients: the step ``partition_trajectories`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition


def run() -> None:
    """Read the arguments, partition, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'partition' of the dataset's file, as JSON")
    parser.add_argument("--trajectories", type=Path, required=True, help="folder of the trajectories")
    parser.add_argument("--out", type=Path, required=True, help="folder of the partition")
    args = parser.parse_args()
    settings = read_section(TrajectoryPartitionSettings, args.config)
    write_partition(make_trajectory_partition(read_trajectories(args.trajectories), settings), args.out)


if __name__ == "__main__":
    main(run)
