"""Build a dataset's panel from its raw files: the step ``panel`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.panels.build import build_panel
from fedloom.data.panels.panel import write_panel
from fedloom.data.panels.settings import PanelSettings
from fedloom.errors import main
from fedloom.progress import PointProgress


def run() -> None:
    """Read the arguments, build, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'panel' of the dataset's file, as JSON")
    parser.add_argument("--raw", type=Path, required=True, help="folder of the dataset's raw files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the panel")
    args = parser.parse_args()
    write_panel(build_panel(read_section(PanelSettings, args.config), args.raw, PointProgress()), args.out)


if __name__ == "__main__":
    main(run)
