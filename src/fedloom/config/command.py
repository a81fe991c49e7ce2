"""Command lines that steps share: of those that make data, and of those that compute something of a run."""

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


def of_a_run(description: str | None, out: str, device: bool = True) -> argparse.ArgumentParser:
    """A parser for a step that computes something of a run: the folders it reads, where ``out`` goes, as ``Path``.

    With ``--device`` and ``--gpu-memory-mb`` where it computes on a ``device``.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data that the run was trained on")
    parser.add_argument("--partition", type=Path, required=True, help="folder of their partition")
    parser.add_argument("--out", type=Path, help=f"where {out} goes (the run's folder, if not given)")
    if device:
        memory = "GPU memory that the job needs, 0 for a whole GPU"
        parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
        parser.add_argument("--gpu-memory-mb", type=int, default=0, help=memory)
    return parser
