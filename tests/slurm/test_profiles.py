"""The two profiles for clusters: one set of requests, for rules that exist; nothing but computing is submitted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

SAME = ("jobs", "cores", "local-cores", "latency-wait", "retries", "set-resources", "groups", "group-components")
SAME += ("resources", "set-resource-scopes")


@pytest.fixture(scope="module")
def profiles(repository: Path) -> dict[str, dict[str, Any]]:
    """Name -> what the profile says."""
    names = ("slurm", "cluster-generic")
    return {name: yaml.safe_load((repository / "profiles" / name / "config.yaml").read_text()) for name in names}


def rules(repository: Path) -> tuple[set[str], set[str]]:
    """Names of all rules, and of those that run where Snakemake does."""
    text = "\n".join(path.read_text() for path in (repository / "workflow" / "rules").glob("*.smk"))
    local = re.findall(r"^localrules:\n((?:    \w+,\n)+)", text, re.MULTILINE)
    return set(re.findall(r"^rule (\w+):", text, re.MULTILINE)), set(re.findall(r"\w+", "".join(local)))


def test_both_ask_for_the_same(profiles: dict[str, dict[str, Any]]) -> None:
    for key in SAME:
        assert profiles["slurm"][key] == profiles["cluster-generic"][key], key
    assert profiles["cluster-generic"]["default-resources"] == profiles["slurm"]["default-resources"] | {"gpu": 0}


def test_what_they_name_are_rules_that_are_submitted(profiles: dict[str, dict[str, Any]], repository: Path) -> None:
    known, local = rules(repository)
    named = {*profiles["slurm"]["set-resources"], *profiles["slurm"]["groups"]}
    assert named <= known - local


def test_what_needs_the_network_or_takes_seconds_runs_where_snakemake_does(repository: Path) -> None:
    known, local = rules(repository)
    assert {"fetch", "table", "figure", "metrics", "claims", "page"} <= local <= known
    assert not local & {"train", "evaluate", "panel", "trajectories", "series"}
