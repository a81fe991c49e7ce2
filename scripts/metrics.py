"""Put all metrics of a study into one file."""

import argparse
from pathlib import Path

from fedloom.errors import main
from fedloom.evaluation.schema import collect_metrics


def run() -> None:
    """Read the arguments, collect, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", required=True, nargs="+", type=Path, help="metrics of the runs")
    parser.add_argument("--out", required=True, type=Path)
    a = parser.parse_args()
    collect_metrics(a.files, a.out)


if __name__ == "__main__":
    main(run)
