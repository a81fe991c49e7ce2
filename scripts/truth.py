"""Compute what is known of generated trajectories beyond their log: the step ``truth`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.trajectories.dkt.truth import build_truth
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.table import read_trajectories
from fedloom.data.trajectories.truth import TruthSettings, write_truth
from fedloom.errors import InputError, main


def run() -> None:
    """Read the arguments, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'truth' of the dataset's file, as JSON")
    parser.add_argument("--generated", required=True, help="section 'trajectories' of the dataset's file, as JSON")
    parser.add_argument("--trajectories", type=Path, required=True, help="folder of the trajectories")
    parser.add_argument("--out", type=Path, required=True, help="folder of the truth")
    args = parser.parse_args()
    world = read_section(TrajectorySettings, args.generated, "--generated").generate
    if world is None:
        raise InputError("--generated: generate: expected the settings of a generated world, found none")
    truth = build_truth(world, read_section(TruthSettings, args.config), read_trajectories(args.trajectories))
    write_truth(truth, args.out)


if __name__ == "__main__":
    main(run)
