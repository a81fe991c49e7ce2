"""Build a dataset's trajectories from its raw files: the step ``trajectories`` of the pipeline."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.trajectories.build import build_trajectories
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.table import write_trajectories
from fedloom.errors import main


def run() -> None:
    """Read the arguments, build, write."""
    a = arguments(__doc__, "trajectories", {"raw": "the dataset's raw files"}, "the trajectories")
    write_trajectories(build_trajectories(read_section(TrajectorySettings, a.config), a.raw), a.out)


if __name__ == "__main__":
    main(run)
