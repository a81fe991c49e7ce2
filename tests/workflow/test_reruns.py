"""What runs again after a change, and above all what does not. Every test runs real Snakemake."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.workflow.conftest import Project

RUNS = ("atlas/base", "atlas/A.1", "fedavg/base", "persistence/base")
TRAININGS = {f"train {run} on tiny, seed 0" for run in RUNS}
EVALUATIONS = {f"evaluate {run} on tiny, seed 0" for run in RUNS}
DATA = {"panel of tiny", "partition of tiny"}
COLLECTED = {"results/atlas/metrics.parquet", "atlas/claims", "results/claims.md", "results/report.html"}


def _shown_by(*groups: str) -> set[str]:
    """The artifacts that show one of the groups, and what is collected from them."""
    study = yaml.safe_load((Path(__file__).parents[2] / "config" / "studies" / "atlas.yaml").read_text())
    return {f"atlas/{name}" for name, each in study["artifacts"].items() if {*each["shows"]} & {*groups}} | COLLECTED


MAIN, ARTIFACTS = _shown_by("main"), _shown_by("main", "ablation")


def jobs_of(method: str) -> set[str]:
    """Training and evaluation of every run of a method."""
    return {job for job in TRAININGS | EVALUATIONS if f" {method}/" in job}


def with_seed(jobs: set[str], seed: int) -> set[str]:
    """The same jobs with another seed."""
    return {job.replace("seed 0", f"seed {seed}") for job in jobs}


def test_from_an_empty_results_folder_everything_is_listed(fresh) -> None:
    assert fresh.planned() == DATA | TRAININGS | EVALUATIONS | ARTIFACTS


def test_one_artifact_needs_only_the_runs_it_shows(fresh) -> None:
    planned = fresh.planned("results/atlas/table1.md")
    assert {job for job in planned if job.startswith("train")} == {job for job in TRAININGS if "A.1" not in job}


def test_a_second_run_reads_the_default_profile_and_has_nothing_to_do(built) -> None:
    output = built.run()
    assert "profiles/default" in output
    assert "Nothing to be done" in output


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory, built_project: Project) -> Project:
    """A project with all its results, in which each test undoes what it changed."""
    return built_project.copy(tmp_path_factory.mktemp("scratch") / "project")


@contextmanager
def changed(project: Project, path: str, old: str, new: str) -> Iterator[None]:
    """The project with another text in a file, while the context lasts."""
    file = project.root / path
    before, stat = file.read_bytes(), file.stat()
    project.edit(path, old, new)
    try:
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


SCALE = "config/scales/tiny.yaml"
EVERY_RUN = TRAININGS | EVALUATIONS | ARTIFACTS
CHANGES = {
    "a method's formula": ("src/fedloom/methods/atlas.py", "return ", "return 1 and ", jobs_of("atlas") | ARTIFACTS),
    "a module that some methods share": (
        "src/fedloom/models/forecaster.py",
        "return ",
        "return 1 and ",
        jobs_of("atlas") | jobs_of("fedavg") | ARTIFACTS,
    ),
    "a module that all methods share": ("src/fedloom/federation/rounds.py", "return ", "return 1 and ", EVERY_RUN),
    "a hyper-parameter": (SCALE, "{lr: 0.001}", "{lr: 0.002}", jobs_of("fedavg") | MAIN),
    "the client model": (
        SCALE,
        "model: {encoder: compact, depth: 1}",
        "model: {encoder: compact, depth: 2}",
        jobs_of("fedavg") | MAIN,
    ),
    "a dataset's values": ("config/datasets/tiny.yaml", "steps: 400", "steps: 401", DATA | EVERY_RUN),
    "a dataset's split": (
        "config/datasets/tiny.yaml",
        "[0.7, 0.1, 0.2]",
        "[0.6, 0.2, 0.2]",
        {"partition of tiny"} | EVERY_RUN,
    ),
    "a method more": (
        SCALE,
        "[atlas, fedavg, persistence]",
        "[atlas, fedavg, persistence, weekly_profile]",
        {"train weekly_profile/base on tiny, seed 0", "evaluate weekly_profile/base on tiny, seed 0"} | MAIN,
    ),
}


@pytest.mark.parametrize(("path", "old", "new", "expected"), CHANGES.values(), ids=list(CHANGES))
def test_a_change_reruns_what_it_reaches(scratch: Project, path: str, old: str, new: str, expected: set[str]) -> None:
    with changed(scratch, path, old, new):
        assert scratch.planned() == expected


def test_a_figures_style_draws_all_again_and_computes_nothing(scratch: Project) -> None:
    with changed(scratch, "src/fedloom/report/fedloom.mplstyle", "font.size", "# Larger.\nfont.size"):
        planned = scratch.planned()
    assert {job for job in ARTIFACTS if "/figure_" in job} | {"results/report.html"} <= planned <= ARTIFACTS


def test_an_edited_table_is_printed_again_and_no_run_is_touched(scratch: Project) -> None:
    with changed(scratch, "src/fedloom/report/layout.py", "def write_table(", "FRESH = 1\n\n\ndef write_table("):
        planned = scratch.planned()
    assert {"atlas/table1", "atlas/table2"} <= planned <= ARTIFACTS


def test_an_edited_metric_trains_nothing(scratch: Project) -> None:
    with changed(scratch, "src/fedloom/evaluation/families/forecast.py", "return ", "return 1 and "):
        assert scratch.planned() == EVALUATIONS | ARTIFACTS


def test_device_and_mirror_leave_finished_runs_alone(scratch: Project) -> None:
    assert scratch.planned("--config", "device=cpu", f"mirror={Path('cache')}") == set()


@pytest.mark.parametrize(("seeds", "fresh_seeds"), [("2", (1,)), ("[0,3]", (3,))])
def test_a_seed_list_runs_the_seeds_that_are_new(scratch: Project, seeds: str, fresh_seeds: tuple[int, ...]) -> None:
    wanted = set().union(*(with_seed(TRAININGS | EVALUATIONS, seed) for seed in fresh_seeds))
    assert scratch.planned("--config", f"seeds={seeds}") == wanted | ARTIFACTS


def test_touching_and_commenting_every_source_file_reruns_nothing(built) -> None:
    for folder in ("src", "scripts"):
        for file in (built.root / folder).rglob("*.py"):
            file.write_text(f"# A comment.\n{file.read_text()}\n# Another.\n")
    for file in (built.root / "config").rglob("*.yaml"):
        os.utime(file)
    assert built.planned() == set()


def test_a_touched_panel_trains_nothing(built) -> None:
    os.utime(built.root / "results" / "data" / "tiny" / "panel" / "values.parquet")
    assert not built.planned() & TRAININGS


def test_a_learning_rate_reruns_its_method_alone_and_where_that_diverges_the_tables_say_so(built) -> None:
    built.edit("config/scales/tiny.yaml", "fedavg: {lr: 0.001}", "fedavg: {lr: 1.0e+30}")
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


def other_scale(project: Project) -> None:
    """A second scale on the same dataset, for one method that has nothing to learn."""
    text = (project.root / SCALE).read_text().partition("      ablation:")[0]
    (project.root / "config" / "scales" / "other.yaml").write_text(
        text.replace("[atlas, fedavg, persistence]", "[persistence]")
    )


def test_another_scale_and_back_trains_nothing_twice(built) -> None:
    other_scale(built)
    table = "results/atlas/table1.md"
    runs = {f"{step} persistence/base on tiny, seed 0" for step in ("train", "evaluate")}
    assert built.planned("--config", "scale=other", "--", table) == runs | {"atlas/table1"}
    built.run("--config", "scale=other", "--", table)
    planned = built.planned()
    assert "atlas/table1" in planned
    assert planned <= ARTIFACTS


def start_training(project: Project, lr: str) -> Callable[[], str]:
    """Train FedAvg with that learning rate; what is returned waits for the end, and gives what was printed."""
    project.edit(SCALE, "{lr: 0.001}", f"{{lr: {lr}}}")
    run = project.folder("fedavg") / "run.json"
    process = project.start(str(run.relative_to(project.root)))

    def end() -> str:
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    return end


def test_two_configs_run_at_once_from_two_folders(tmp_path: Path, built_project: Project) -> None:
    projects = {lr: built_project.copy(tmp_path / lr) for lr in ("0.002", "0.003")}
    for end in [start_training(project, lr) for lr, project in projects.items()]:
        end()
    for lr, project in projects.items():
        assert json.loads((project.folder("fedavg") / "run.json").read_text())["spec"]["params"]["lr"] == float(lr)


COMPARED = ("data/tiny/*/*", "runs/tiny/tiny/*/*/seed0/run.json", "runs/tiny/tiny/*/*/seed0/*.safetensors")
COMPARED += ("runs/tiny/tiny/*/*/seed0/rounds.parquet", "runs/tiny/tiny/*/*/seed0/metrics.parquet", "atlas/table[12].*")


def test_another_folder_order_and_thread_count_of_the_data_stages_give_the_same_bits(
    fresh: Project, built_project: Project
) -> None:
    last = str((fresh.folder("persistence") / "run.json").relative_to(fresh.root))
    order = ("--prioritize", last, "--set-threads", "panel=2", "partition_panel=2")
    fresh.run(*order, "--", "results/atlas/table1.md", "results/atlas/table2.md")
    ours, theirs = (
        {path.relative_to(root): path.read_bytes() for pattern in COMPARED for path in root.glob(pattern)}
        for root in (fresh.root / "results", built_project.root / "results")
    )
    assert len(ours) > 30
    assert ours.keys() == theirs.keys()
    assert [path for path in ours if ours[path] != theirs[path]] == []
