"""Split series into clients, parts and windows, none of which evaluation holds out: the step ``partition_series``."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.series.table import read_series
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.series import SeriesPartitionSettings, make_series_partition


def run() -> None:
    """Read the arguments, compare with the targets, partition, write."""
    held_out = {"targets": "the series of the held-out targets"}
    a = arguments(__doc__, "partition", {"series": "the series"}, "the partition", held_out)
    settings = read_section(SeriesPartitionSettings, a.config)
    targets = read_series(a.targets) if a.targets else None
    write_partition(make_series_partition(read_series(a.series), settings, targets), a.out)


if __name__ == "__main__":
    main(run)
