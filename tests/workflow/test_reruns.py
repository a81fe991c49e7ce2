"""What runs again after a change, and above all what does not. Every test runs real Snakemake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

RUNS = ("atlas/base", "atlas/A.1", "fedavg/base", "persistence/base")
TRAININGS = {f"train {run} on tiny, seed 0" for run in RUNS}
EVALUATIONS = {f"evaluate {run} on tiny, seed 0" for run in RUNS}
COLLECTED = {"results/atlas/metrics.parquet", "results/report.html"}
ARTIFACTS = {"atlas/table1", "atlas/table2", "atlas/figure_curves"} | COLLECTED


def jobs_of(method: str) -> set[str]:
    """Training and evaluation of every run of a method."""
    return {job for job in TRAININGS | EVALUATIONS if f" {method}/" in job}


def test_from_an_empty_results_folder_everything_is_listed(fresh) -> None:
    planned = fresh.planned()
    assert planned == {"panel of tiny", "partition of tiny"} | TRAININGS | EVALUATIONS | ARTIFACTS


def test_one_artifact_needs_only_the_runs_it_shows(fresh) -> None:
    planned = fresh.planned("results/atlas/table1.md")
    assert {job for job in planned if job.startswith("train")} == {job for job in TRAININGS if "A.1" not in job}


def test_a_second_run_reads_the_default_profile_and_has_nothing_to_do(built) -> None:
    output = built.run()
    assert "profiles/default" in output
    assert "Nothing to be done" in output


def test_touching_and_commenting_every_source_file_reruns_nothing(built) -> None:
    for folder in ("src", "scripts"):
        for file in (built.root / folder).rglob("*.py"):
            file.write_text(f"# A comment.\n{file.read_text()}\n# Another.\n")
    for file in (built.root / "config").rglob("*.yaml"):
        os.utime(file)
    assert built.planned() == set()


def test_a_learning_rate_reruns_its_method_alone_and_where_that_diverges_the_tables_say_so(built) -> None:
    built.edit("config/scales/tiny.yaml", "fedavg: {lr: 0.001}", "fedavg: {lr: 1.0e+30}")
    assert built.planned() == jobs_of("fedavg") | {"atlas/table1", "atlas/figure_curves"} | COLLECTED
    other = built.folder("atlas") / "weights.safetensors"
    before = other.stat()
    built.run()
    assert other.stat() == before
    record = json.loads((built.folder("fedavg") / "run.json").read_text())
    assert record["verdict"] == "diverged"
    assert "not finite" in record["reason"]
    assert pd.read_parquet(built.folder("fedavg") / "metrics.parquet")["value"].isna().all()
    table = (built.root / "results" / "atlas" / "table1.md").read_text()
    row = next(line for line in table.splitlines() if "FedAvg" in line)
    assert "diverged" in row
    assert "diverged" not in table.replace(row, "")
    assert built.planned() == set()


def test_an_edited_formula_reruns_that_method_alone(built) -> None:
    path = "src/fedloom/methods/atlas.py"
    built.edit(path, "return ", "return 1 and ")
    assert built.planned() == jobs_of("atlas") | ARTIFACTS


def test_the_client_model_reruns_the_methods_that_take_it(built) -> None:
    built.edit("config/scales/tiny.yaml", "model: {encoder: compact, depth: 1}", "model: {encoder: compact, depth: 2}")
    assert built.planned() == jobs_of("fedavg") | {"atlas/table1", "atlas/figure_curves"} | COLLECTED


def test_an_edited_table_is_printed_again_and_no_run_is_touched(built) -> None:
    built.edit("src/fedloom/report/layout.py", "def write_table(", "FRESH = 1\n\n\ndef write_table(")
    planned = built.planned()
    assert {"atlas/table1", "atlas/table2"} <= planned <= ARTIFACTS


def test_an_edited_metric_trains_nothing(built) -> None:
    path = built.root / "src" / "fedloom" / "evaluation" / "families" / "forecast.py"
    path.write_text(path.read_text() + "\nFRESH = 1\n")
    planned = built.planned()
    assert planned >= EVALUATIONS
    assert not planned & TRAININGS


def test_device_mirror_and_a_further_seed_leave_finished_runs_alone(built) -> None:
    assert built.planned("--config", "device=cpu", f"mirror={Path('cache')}") == set()
    further = built.planned("--config", "seeds=2")
    assert {job for job in further if job.startswith("train")} == {
        job.replace("seed 0", "seed 1") for job in TRAININGS
    }  # fmt: skip


def test_a_touched_panel_trains_nothing(built) -> None:
    os.utime(built.root / "results" / "data" / "tiny" / "panel" / "values.parquet")
    assert not built.planned() & TRAININGS
