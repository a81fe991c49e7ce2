"""JSON schemas of the config files, for editors and readers; generated, never edited.

python -m fedloom.config.schemas workflow/schemas
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fedloom.artifacts import write_text
from fedloom.config.claims import ClaimsFile
from fedloom.config.dataset import AnyDataset
from fedloom.config.names import NamesFile
from fedloom.config.scale import Scale
from fedloom.config.settings import Settings
from fedloom.config.study import Study

MODELS: dict[str, Any] = {
    "claims": ClaimsFile,
    "config": Settings,
    "dataset": AnyDataset,
    "names": NamesFile,
    "scale": Scale,
    "study": Study,
}


def schema(name: str) -> str:
    """The schema of one kind of config file, as indented JSON."""
    return json.dumps(TypeAdapter(MODELS[name]).json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for each in MODELS:
        write_text(Path(sys.argv[1]) / f"{each}.json", schema(each))
