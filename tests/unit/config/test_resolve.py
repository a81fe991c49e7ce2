"""From config to runs: defaults, their order, runs that exist once, and one line for what does not exist."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedloom.config.artifact import RunKey
from fedloom.config.plan import Plan
from fedloom.config.resolve import as_text, read_plan
from fedloom.config.settings import Settings
from fedloom.errors import InputError
from fedloom.methods.atlas import Atlas

STUDY = {
    "title": "A study",
    "family": "forecast",
    "model": "forecaster",
    "variants": {"atlas": {"A.4": {"align": False}, "slow": {"lr": 1e-4}, "compact": {"encoder": "compact"}}},
    "artifacts": {
        "table1": {"draw": "cost_table", "shows": ["main"], "caption": "Costs"},
        "table2": {"draw": "regimes", "shows": ["ablation"], "caption": "Ablations"},
        "figure1": {"draw": "curves", "options": {"label": "MAE"}, "shows": ["main", "ablation"], "caption": "Curves"},
    },
    "targets": {"core": ["table1"]},
}
MAIN = {"dataset": "regimes", "methods": ["atlas", "fedavg", "persistence"], "seeds": 2}
ABLATION = {"dataset": "regimes", "methods": ["atlas/*"], "seeds": 1}

PlanOf = Callable[..., Plan]


@pytest.fixture
def plan_of(tmp_path: Path, repository: Path) -> PlanOf:
    """Resolve a scale and a study written as mappings, beside the repository's ``regimes``."""

    def build(scale: dict[str, Any], study: dict[str, Any] = STUDY, **settings: Any) -> Plan:
        for kind, name, content in (("scales", "tiny", scale), ("studies", "one", study)):
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        (tmp_path / "datasets").mkdir(exist_ok=True)
        shutil.copy(repository / "config" / "datasets" / "regimes.yaml", tmp_path / "datasets")
        return read_plan(tmp_path, Settings(scale="tiny", studies=("one",), **settings))

    return build


def scale(*main: dict[str, Any], **runs: Any) -> dict[str, Any]:
    """A scale whose study ``one`` runs the groups ``main`` and, where asked for, others."""
    groups = {"main": list(main) or [MAIN]} | runs.pop("groups", {})
    return {"protocol": {"rounds": 3}, "studies": {"one": {"groups": groups} | runs}}


def test_a_spec_holds_every_default_and_is_plain_sorted_json(plan_of: PlanOf) -> None:
    spec = plan_of(scale()).runs[RunKey("regimes", "atlas", "base", 1)]
    assert spec["params"].keys() == set(Atlas.Params.__dataclass_fields__)
    assert (spec["dataset"], spec["method"], spec["variant"], spec["seed"]) == ("regimes", "atlas", "base", 1)
    assert spec["protocol"]["rounds"] == 3
    assert json.loads(as_text(spec)) == spec


def test_a_variant_overrides_the_group_which_overrides_the_scale_which_overrides_the_method(plan_of: PlanOf) -> None:
    group = {**ABLATION, "params": {"atlas": {"depth": 1, "width": 8}}}
    asked = scale(group, params={"atlas": {"lr": 0.5, "width": 4}})
    runs = plan_of(asked).runs
    base, slow = (runs[RunKey("regimes", "atlas", variant, 0)]["params"] for variant in ("base", "slow"))
    assert (base["lr"], base["width"], base["depth"]) == (0.5, 8, 1)
    assert base["temperature"] == Atlas.Params().temperature
    assert slow == {**base, "lr": 1e-4}


def test_methods_that_take_no_client_model_have_none(plan_of: PlanOf) -> None:
    runs = plan_of(scale(model={"width": 8})).runs
    models = {key.method: spec["model"] for key, spec in runs.items()}
    assert models["atlas"] is None
    assert models["persistence"] is None
    assert models["fedavg"]["name"] == "forecaster"
    assert models["fedavg"]["params"]["width"] == 8


def test_a_run_that_several_groups_name_exists_once_and_artifacts_show_exactly_theirs(plan_of: PlanOf) -> None:
    plan = plan_of(scale(groups={"ablation": [ABLATION]}))
    shown = {artifact.name: set(artifact.runs) for artifact in plan.artifacts}
    assert shown["table1"] == {RunKey("regimes", m, "base", s) for m in MAIN["methods"] for s in (0, 1)}
    assert {(key.variant, key.seed) for key in shown["table2"]} == {(v, 0) for v in ("base", "A.4", "slow", "compact")}
    assert shown["figure1"] == shown["table1"] | shown["table2"] == set(plan.runs)


def test_a_variant_that_equals_the_base_of_the_scale_is_not_run_twice(plan_of: PlanOf) -> None:
    runs = plan_of(scale(ABLATION, params={"atlas": {"encoder": "compact"}})).runs
    assert "compact" not in {key.variant for key in runs}


def test_seeds_of_the_settings_replace_those_of_every_group(plan_of: PlanOf) -> None:
    runs = plan_of(scale(groups={"ablation": [ABLATION]}), seeds=(5,)).runs
    assert {key.seed for key in runs} == {5}


def test_an_artifact_without_runs_at_this_scale_is_not_built(plan_of: PlanOf) -> None:
    plan = plan_of(scale())
    assert [artifact.name for artifact in plan.artifacts] == ["table1", "figure1"]
    files = tuple(file for artifact in plan.artifacts for file in artifact.files)
    assert plan.targets["one"] == (*files, "results/one/metrics.parquet")
    assert plan.targets["core"] == ("results/one/table1.csv", "results/one/table1.md", "results/one/table1.tex")


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (scale({**MAIN, "methods": ["fedavgg"]}), "groups.main.0.methods: found 'fedavgg', expected one of atlas, "),
        (scale({**MAIN, "methods": ["fedavgg"]}), "(did you mean 'fedavg'?)"),
        (scale({**MAIN, "methods": ["atlas/A.9"]}), "variant of atlas: found 'A.9', expected one of A.4, base"),
        (scale({**MAIN, "dataset": "regime"}), "groups.main.0.dataset: found 'regime', expected regimes (did you"),
        (scale({**MAIN, "protocol": {"round": 1}}), "groups.main.0.protocol: unknown key 'round', expected one of bat"),
        (scale({**MAIN, "protocol": {"rounds": "many"}}), "groups.main.0.protocol: rounds: found 'many', expected: "),
        (scale(params={"atlas": {"learning_rate": 1}}), "studies.one.params.atlas: unknown key 'learning_rate', exp"),
        (scale(params={"atlas": {"encoder": "tall"}}), "encoder: found 'tall', expected one of compact, wide"),
        (scale(params={"atlass": {}}), "studies.one.params: found 'atlass', expected one of atlas"),
        (scale(groups={"mian": [MAIN]}), "no artifact shows the group: found 'mian', expected one of ablation, main"),
        (scale({**MAIN, "sedes": 1}), "unknown key 'studies.one.groups.main.0.sedes', expected one of dataset, meth"),
        (
            scale(groups={"ablation": [{**MAIN, "protocol": {"rounds": 4}}]}),
            "regimes/atlas/base/0 is asked for twice with different protocol.rounds: 3 and 4",
        ),
    ],
)
def test_what_does_not_exist_is_named_in_one_line(plan_of: PlanOf, asked: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as error:
        plan_of(asked)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("method", "protocol", "line"),
    [
        ("cnfgnn", {"faults": {"lost": 0.1}}, "protocol.faults: expected a method whose clients only send uploads, fo"),
        ("cnfgnn", {"noise": {"kind": "gaussian", "scale": 1}}, "protocol.noise: expected a method whose clients only"),
        ("feddis", {"server_rule": {"kind": "median"}}, "protocol.server_rule: expected mean, found median for feddis"),
    ],
)
def test_what_a_method_cannot_do_is_said_before_anything_runs(
    plan_of: PlanOf, method: str, protocol: dict[str, Any], line: str
) -> None:
    with pytest.raises(InputError) as of_group:
        plan_of(scale({**MAIN, "methods": [method], "protocol": protocol}))
    assert f"groups.main.0.{line}" in str(of_group.value)
    study = STUDY | {"variants": {**STUDY["variants"], method: {"broken": {"protocol": protocol}}}}
    with pytest.raises(InputError) as of_variant:
        plan_of(scale({**MAIN, "methods": [f"{method}/broken"]}), study)
    assert f"one.yaml: variants.{method}.broken.{line}" in str(of_variant.value)


STARTING = {
    "first": {"clients": {"share": 0.5}},
    "tuned": {"start": {"run": "atlas/first", "take": ["codebook"]}, "clients": {"share": 0.5, "part": "rest"}},
    "again": {"lr": 1e-4, "start": {"run": "atlas/tuned", "take": ["codebook"], "freeze": ["codebook"]}},
}


def starting(**variants: Any) -> dict[str, Any]:
    """A study whose variants of ``atlas`` are these, and those that start from runs."""
    return STUDY | {"variants": {"atlas": STARTING | variants}}


def test_a_run_that_starts_from_a_run_brings_that_one_along_without_showing_it(plan_of: PlanOf) -> None:
    asked = scale({**ABLATION, "methods": ["atlas", "atlas/again"], "protocol": {"rounds": 7}})
    plan = plan_of(asked, starting())
    key = {variant: RunKey("regimes", "atlas", variant, 0) for variant in ("base", "first", "tuned", "again")}
    assert set(plan.runs) == set(key.values())
    assert set(plan.artifacts[0].runs) == {key["base"], key["again"]}
    assert {spec["protocol"]["rounds"] for spec in plan.runs.values()} == {7}
    again, first = plan.runs[key["again"]], plan.runs[key["first"]]
    assert json.loads(as_text(again))["start"] == {"run": "atlas/tuned", "take": ["codebook"], "freeze": ["codebook"]}
    assert first["clients"] == {"share": 0.5, "part": "first"}
    assert not {"start", "clients"} & plan.runs[key["base"]].keys()
    assert {"start", "clients"} & again["params"].keys() == set()


def test_training_reads_the_run_that_it_starts_from(plan_of: PlanOf) -> None:
    plan = plan_of(scale({**ABLATION, "methods": ["atlas/tuned"]}, groups={}), starting())
    tuned, first = ({"dataset": "regimes", "method": "atlas", "variant": v, "seed": "0"} for v in ("tuned", "first"))
    folder = "results/runs/tiny/regimes/atlas/first/seed0"
    assert set(plan.source_files(tuned).values()) == {f"{folder}/weights.safetensors", f"{folder}/run.json"}
    assert plan.source_argument(tuned) == f"--start {folder}"
    assert (plan.source_files(first), plan.source_argument(first)) == ({}, "")


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        (
            {"start": {"run": "atlas/frist", "take": ["codebook"]}},
            "variant of atlas: found 'frist', expected one of ag",
        ),
        (
            {"start": {"run": "atlass", "take": ["codebook"]}},
            "atlas.odd.start.run: found 'atlass', expected one of atl",
        ),
        (
            {"start": {"run": "atlas/odd", "take": ["codebook"]}},
            "atlas.odd.start.run: expected a run that starts anew ",
        ),
        ({"start": {"run": "atlas"}}, "variants.atlas.odd.start: key 'take' is missing"),
        (
            {"start": {"run": "atlas", "take": []}},
            "atlas.odd.start: the whole: found {'run': 'atlas', 'take': []}, expe",
        ),
        (
            {"start": {"run": "atlas", "taek": []}},
            "atlas.odd.start: unknown key 'taek', expected one of freeze, run, t",
        ),
        ({"clients": {"share": 1.5}}, "expected a share in (0, 1), found 1.5"),
        (
            {"clients": {"share": 0.5, "part": "last"}},
            "atlas.odd.clients: part: found 'last', expected one of first, re",
        ),
    ],
)
def test_a_start_that_cannot_be_is_named_in_one_line(plan_of: PlanOf, variant: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as error:
        plan_of(scale({**ABLATION, "methods": ["atlas/odd"]}), starting(odd=variant))
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def with_beside(folder: Path, beside: dict[str, str]) -> None:
    """Let ``regimes`` of the test name others beside it, of which ``other`` exists."""
    path = folder / "datasets" / "regimes.yaml"
    content = yaml.safe_load(path.read_text())
    path.with_stem("other").write_text(yaml.safe_dump(content))
    path.write_text(yaml.safe_dump(content | {"beside": beside}))


def test_a_dataset_beside_another_is_built_for_evaluation_without_runs_of_its_own(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    plan_of(scale())
    with_beside(tmp_path, {"targets": "other"})
    plan = read_plan(tmp_path, Settings(scale="tiny", studies=("one",)))
    assert {key.dataset for key in plan.runs} == {"regimes"}
    assert re.fullmatch(plan.constraints()["dataset"], "other")
    assert re.fullmatch(plan.of_family("forecast"), "other")
    alone, judged = plan.inputs("regimes"), plan.inputs("regimes", truth=True, beside=True)
    assert judged.items() > alone.items()
    added = {name.removeprefix("beside_targets_"): path for name, path in judged.items() - alone.items()}
    assert added == plan.inputs("other", truth=True)
    assert plan.beside_arguments("regimes") == "--beside targets=results/data/other/panel"
    assert plan.beside_arguments("other") == ""


@pytest.mark.parametrize(
    ("beside", "line"),
    [
        ({"targets": "othr"}, "regimes.yaml: beside.targets: found 'othr', expected other (did you mean 'other'?)"),
        ({"targets": "regimes"}, "regimes.yaml: beside.targets: found 'regimes', expected other"),
        ({"to be": "other"}, "regimes.yaml: beside.to be.[key]: found 'to be', expected: "),
    ],
)
def test_a_dataset_beside_another_must_exist_and_be_another(
    plan_of: PlanOf, tmp_path: Path, beside: dict[str, str], line: str
) -> None:
    plan_of(scale())
    with_beside(tmp_path, beside)
    with pytest.raises(InputError) as error:
        read_plan(tmp_path, Settings(scale="tiny", studies=("one",)))
    assert line in str(error.value)


@pytest.mark.parametrize(
    ("artifact", "message"),
    [
        ({"draw": "curve"}, r"artifacts.table1.draw: found 'curve', .* \(did you mean 'curves'\?\)"),
        ({"draw": "regimes", "options": {"metric": "mae"}}, "unknown key 'metric', expected nothing here"),
        ({"draw": "curves", "options": {"labl": "MAE"}}, "unknown key 'labl', expected one of label, quantity"),
        ({"draw": "curves"}, "artifacts.table1.options: key 'label' is missing"),
        ({"draw": "accuracy", "options": {"against": "local", "few": "all"}}, "table1.options: few: found 'all'"),
    ],
)
def test_an_artifact_names_its_drawing_function_and_options_that_it_has(
    plan_of: PlanOf, artifact: dict[str, Any], message: str
) -> None:
    artifacts = STUDY["artifacts"] | {"table1": {"shows": ["main"], "caption": "Costs"} | artifact}
    with pytest.raises(InputError, match=message):
        plan_of(scale(), STUDY | {"artifacts": artifacts})


def test_a_study_that_puts_a_method_foremost_must_name_one(plan_of: PlanOf) -> None:
    with pytest.raises(InputError, match="foremost: found 'atlass'"):
        plan_of(scale(), STUDY | {"foremost": "atlass"})


def test_what_things_are_called_reaches_artifacts_and_no_run(plan_of: PlanOf) -> None:
    before = plan_of(scale())
    regimes = before.datasets["regimes"]
    renamed = regimes.model_copy(update={"label": "Worlds"})
    assert all(renamed.settings(section) == regimes.settings(section) for section in ("panel", "partition"))
    assert not any("label" in as_text(spec) for spec in before.runs.values())
    for artifact in before.artifacts:
        arguments = dataclasses.replace(artifact, datasets={"regimes": renamed}).arguments
        assert arguments[arguments.index("--labels") + 1] == '{"regimes": "Worlds"}'
        assert all(arguments), "a shell command would lose what is empty"


def test_a_target_must_name_artifacts(plan_of: PlanOf) -> None:
    with pytest.raises(InputError, match=r"targets.core: found 'table9', expected one of figure1, table1, table2"):
        plan_of(scale(), {**STUDY, "targets": {"core": ["table9"]}})


def test_a_key_that_stands_twice_is_an_error_not_a_loss(tmp_path: Path, repository: Path) -> None:
    shutil.copytree(repository / "config", tmp_path / "config")
    path = tmp_path / "config" / "scales" / "quick.yaml"
    path.write_text(path.read_text() + "\nprotocol: {}\n")
    with pytest.raises(InputError, match="key 'protocol' stands twice"):
        read_plan(tmp_path / "config", Settings())
