"""Fetch one raw file of a dataset: the step ``fetch`` of the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.config.dataset import read_section
from fedloom.data.download import fetch
from fedloom.data.sources import RawFile
from fedloom.errors import main


def run() -> None:
    """Read the arguments, fetch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="one raw file of the dataset's section 'files', as JSON")
    parser.add_argument("--name", required=True, help="dataset/key, for messages and the lock")
    parser.add_argument("--lock", type=Path, required=True, help="file of hashes pinned at the first download")
    parser.add_argument("--mirror", type=Path, help="folder of files to try first")
    parser.add_argument("--out", type=Path, required=True, help="where the raw file goes; its note lies beside it")
    args = parser.parse_args()
    fetch(read_section(RawFile, args.config), args.name, args.out, args.lock, args.mirror)


if __name__ == "__main__":
    main(run)
