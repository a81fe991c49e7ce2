"""Split a panel into clients, parts and windows: the step ``partition_panel`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.panels.panel import read_panel
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition


def run() -> None:
    """Read the arguments, partition, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'partition' of the dataset's file, as JSON")
    parser.add_argument("--panel", type=Path, required=True, help="folder of the panel")
    parser.add_argument("--out", type=Path, required=True, help="folder of the partition")
    args = parser.parse_args()
    settings = read_section(PanelPartitionSettings, args.config)
    write_partition(make_panel_partition(read_panel(args.panel), settings), args.out)


if __name__ == "__main__":
    main(run)
