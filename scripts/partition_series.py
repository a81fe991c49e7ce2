"""Split series into clients, parts and windows, none of which evaluation holds out: the step ``partition_series``."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.series.table import read_series
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.series import SeriesPartitionSettings, make_series_partition


def run() -> None:
    """Read the arguments, compare with the targets, partition, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'partition' of the dataset's file, as JSON")
    parser.add_argument("--series", type=Path, required=True, help="folder of the series")
    parser.add_argument("--targets", type=Path, help="folder of the series of the held-out targets")
    parser.add_argument("--out", type=Path, required=True, help="folder of the partition")
    args = parser.parse_args()
    targets = read_series(args.targets) if args.targets else None
    settings = read_section(SeriesPartitionSettings, args.config)
    write_partition(make_series_partition(read_series(args.series), settings, targets), args.out)


if __name__ == "__main__":
    main(run)
