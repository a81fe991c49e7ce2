"""Build a dataset's series from its raw files, or from another dataset's: the step ``series`` of the pipeline."""

from __future__ import annotations

from fedloom.config.command import arguments
from fedloom.config.dataset import read_section
from fedloom.data.series.build import build_series
from fedloom.data.series.settings import SeriesSettings
from fedloom.data.series.table import write_series
from fedloom.errors import main


def run() -> None:
    """Read the arguments, build, write."""
    other = {"series": "the series of the dataset that 'series_of' names"}
    a = arguments(__doc__, "series", {"raw": "the dataset's raw files"}, "the series", other)
    write_series(build_series(read_section(SeriesSettings, a.config), a.raw, a.series), a.out)


if __name__ == "__main__":
    main(run)
