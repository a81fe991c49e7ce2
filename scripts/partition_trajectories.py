"""Split trajectories into parts and deal them to clients: the step ``partition_trajectories`` of the pipeline."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.trajectories.table import read_trajectories
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition


def run() -> None:
    """Read the arguments, partition, write."""
    a = arguments(__doc__, "partition", {"trajectories": "the trajectories"}, "the partition")
    settings = read_section(TrajectoryPartitionSettings, a.config)
    write_partition(make_trajectory_partition(read_trajectories(a.trajectories), settings), a.out)


if __name__ == "__main__":
    main(run)
