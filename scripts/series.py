"""Build a dataset's series from its raw files, or from another dataset's: the step ``series`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.series.build import build_series
from fedloom.data.series.settings import SeriesSettings
from fedloom.data.series.table import write_series
from fedloom.errors import main


def run() -> None:
    """Read the arguments, build, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="section 'series' of the dataset's file, as JSON")
    parser.add_argument("--raw", type=Path, required=True, help="folder of the dataset's raw files")
    parser.add_argument("--series", type=Path, help="folder of the series of the dataset that 'series_of' names")
    parser.add_argument("--out", type=Path, required=True, help="folder of the series")
    args = parser.parse_args()
    write_series(build_series(read_section(SeriesSettings, args.config), args.raw, args.series), args.out)


if __name__ == "__main__":
    main(run)
