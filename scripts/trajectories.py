"""Build a dataset's trajectories from its raw files: the step ``trajectories`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.trajectories.build import build_trajectories
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.table import write_trajectories
from fedloom.errors import main


def run() -> None:
    """Read the arguments, build, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'trajectories' of the dataset's file, as JSON")
    parser.add_argument("--raw", type=Path, required=True, help="folder of the dataset's raw files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the trajectories")
    args = parser.parse_args()
    write_trajectories(build_trajectories(read_section(TrajectorySettings, args.config), args.raw), args.out)


if __name__ == "__main__":
    main(run)
