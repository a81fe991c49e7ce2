"""Split a panel into clients, parts and windows: the step ``partition_panel`` of the pipeline."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.panels.panel import read_panel
from fedloom.errors import main
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition


def run() -> None:
    """Read the arguments, partition, write."""
    a = arguments(__doc__, "partition", {"panel": "the panel"}, "the partition")
    settings = read_section(PanelPartitionSettings, a.config)
    write_partition(make_panel_partition(read_panel(a.panel), settings), a.out)


if __name__ == "__main__":
    main(run)
