"""The command line that the scripts for tables and figures share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.report.names import Names
from fedloom.report.registry import Drawing, drawing
from fedloom.report.shown import Shown

SHOWN = ("study", "name", "scale", "caption", "notes", "foremost", "reference")
"""Arguments that are what they are called in ``Shown``."""

Check = Callable[[type, Any, str], Any]
"""Makes an instance of a class from plain data, or says where (third argument) the two do not agree."""


@dataclass(frozen=True)
class Asked:
    """What a script was told: the drawing function and its options, what is shown, the path to write to."""

    drawing: Drawing
    options: Any
    shown: Shown
    out: Path

    def drawn(self) -> Any:
        """The table or figure."""
        return self.drawing.draw(self.shown, self.options)


def parse(description: str | None, read_names: Callable[[Path], Names], check: Check) -> Asked:
    """Read the arguments. The readers of config files come from the script, as nothing here knows config.

    Raises InputError for an unknown drawing function, options that it does not have, or names that are none.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--study", required=True, help="whose artifact it is, e.g. atlas")
    parser.add_argument("--name", required=True, help="which artifact, e.g. table1")
    parser.add_argument("--draw", required=True, help="the function that draws it, e.g. comparison")
    parser.add_argument("--options", default="{}", help="its options (JSON)")
    parser.add_argument("--names", required=True, type=Path, help="yaml file of names in print")
    parser.add_argument("--scale", required=True, help="named in the caption")
    parser.add_argument("--caption", required=True, help="what is shown, without a full stop")
    parser.add_argument("--notes", default="", help="what the study adds to the notes")
    parser.add_argument("--foremost", default="", help="the method that the study proposes")
    parser.add_argument("--labels", default="{}", help="dataset -> its name in print (JSON)")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs that it shows")
    parser.add_argument("--panels", required=True, nargs="+", type=Path, help="folders of their panels or the like")
    parser.add_argument("--partitions", nargs="+", type=Path, default=[], help="folders of their partitions, if shown")
    parser.add_argument("--also", nargs="+", default=[], help="what else it shows of its runs, e.g. adapted")
    parser.add_argument("--reference", type=Path, help="csv of published values")
    parser.add_argument("--out", required=True, type=Path, help="path of the files without their endings")
    a = parser.parse_args()
    drawn_by = drawing(a.draw)
    told: dict[str, Any] = {key: getattr(a, key) for key in SHOWN}
    folders: dict[str, Any] = {"folders": tuple(a.runs), "data": tuple(a.panels), "dealt": tuple(a.partitions)}
    shown = Shown(**told, **folders, also=tuple(a.also), names=read_names(a.names), labels=json.loads(a.labels))
    return Asked(drawn_by, check(drawn_by.options, json.loads(a.options), "--options"), shown, a.out)
