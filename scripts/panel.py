"""Build a dataset's panel from its raw files: the step ``panel`` of the pipeline."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.panels.build import build_panel
from fedloom.data.panels.panel import write_panel
from fedloom.data.panels.settings import PanelSettings
from fedloom.errors import main
from fedloom.progress import PointProgress


def run() -> None:
    """Read the arguments, build, write."""
    a = arguments(__doc__, "panel", {"raw": "the dataset's raw files"}, "the panel")
    write_panel(build_panel(read_section(PanelSettings, a.config), a.raw, PointProgress()), a.out)


if __name__ == "__main__":
    main(run)
