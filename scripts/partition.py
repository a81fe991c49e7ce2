"""Split a panel into clients, parts and windows: the step ``partition`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.panels.panel import read_panel
from fedloom.errors import main
from fedloom.partition.windows import PartitionSettings, make_partition, write_partition


def run() -> None:
    """Read the arguments, split, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'partition' of the dataset's file, as JSON")
    parser.add_argument("--panel", type=Path, required=True, help="folder of the panel")
    parser.add_argument("--out", type=Path, required=True, help="folder of the partition")
    args = parser.parse_args()
    write_partition(make_partition(read_panel(args.panel), read_section(PartitionSettings, args.config)), args.out)


if __name__ == "__main__":
    main(run)
