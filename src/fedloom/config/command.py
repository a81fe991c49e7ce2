"""The command line of a step that makes data: settings as JSON, the folders it reads, the folder it writes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path


def arguments(
    description: str | None, section: str, reads: Mapping[str, str], out: str, may_read: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """Read ``--config`` (a ``section`` of a dataset's file), ``--out`` and one folder for each name, as ``Path``.

    ``reads`` and ``may_read`` say what lies in the folders that are needed and in those that may be absent (None).
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", required=True, help=f"section {section!r} of the dataset's file, as JSON")
    for name, what in {**reads, **(may_read or {})}.items():
        parser.add_argument(f"--{name}", type=Path, required=name in reads, help=f"folder of {what}")
    parser.add_argument("--out", type=Path, required=True, help=f"folder of {out}")
    return parser.parse_args()
