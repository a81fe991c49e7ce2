"""The committed schemas are those of the models, and the committed config files agree with them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from fedloom.config.dataset import SECTIONS
from fedloom.config.schemas import MODELS, schema

FOLDERS = {"claims": "claims", "datasets": "dataset", "scales": "scale", "studies": "study"}


@pytest.mark.parametrize("name", MODELS)
def test_committed_schemas_are_those_of_the_models(repository: Path, name: str) -> None:
    committed = (repository / "workflow" / "schemas" / f"{name}.json").read_text()
    assert committed == schema(name), "run: python -m fedloom.config.schemas workflow/schemas"


def test_committed_config_agrees_with_the_schemas(repository: Path) -> None:
    config = repository / "config"
    files = {config / "config.yaml": "config", config / "names.yaml": "names"}
    files |= {file: name for folder, name in FOLDERS.items() for file in (config / folder).glob("*.yaml")}
    for file, name in files.items():
        content = yaml.safe_load(file.read_text())
        if name == "dataset":
            content[next(family for family in SECTIONS if family in content)] |= {"dataset": file.stem}
        jsonschema.validate(content, json.loads(schema(name)))
