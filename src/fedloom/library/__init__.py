"""fedloom without Snakemake: load a panel, train a federation on it, ask what was trained here or by a pipeline."""

from __future__ import annotations

from fedloom.library.load import load_run
from fedloom.library.panels import load_panel
from fedloom.library.train import train

__all__ = ["load_panel", "load_run", "train"]
