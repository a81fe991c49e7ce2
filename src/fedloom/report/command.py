"""The command line that the scripts for tables and figures share."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedloom.report.shown import Shown, show


def parse(description: str | None) -> tuple[Shown, Path]:
    """Read the arguments; return what the artifact shows and its path without an ending."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--study", required=True, help="whose artifact it is, e.g. atlas")
    parser.add_argument("--name", required=True, help="which artifact, e.g. table1")
    parser.add_argument("--scale", required=True, help="named in the caption")
    parser.add_argument("--caption", required=True, help="what is shown, without a full stop")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs that it shows")
    parser.add_argument(
        "--panels", required=True, nargs="+", type=Path, help="folders of these runs' panels or trajectories"
    )
    parser.add_argument("--partitions", nargs="+", type=Path, default=[], help="folders of their partitions, if shown")
    parser.add_argument("--adapted", action="store_true", help="also show what runs do after an epoch on held-out sets")
    parser.add_argument("--reference", type=Path, help="csv of published values")
    parser.add_argument("--out", required=True, type=Path, help="path of the files without their endings")
    a = parser.parse_args()
    folders = a.runs, a.panels, a.reference, a.partitions
    return show(a.study, a.name, a.scale, a.caption, *folders, adapted=a.adapted), a.out
