"""What things are called stands in config: code knows no method, and what config does not list is printed as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fedloom.report
from fedloom.config.dataset import PanelDataset, TrajectoryDataset, read_dataset
from fedloom.config.names import read_names
from fedloom.config.study import read_study
from fedloom.errors import InputError
from fedloom.methods import registry as methods
from fedloom.report.names import MethodName, Names, VariantName, run_of
from fedloom.report.registry import drawings

from .conftest import CONFIG

NAMES = Names(
    methods={"first": MethodName("First", "Ours"), "second": MethodName("Second", "Others")},
    variants={"first": {"b": VariantName("B", "all"), "a": VariantName(changes="none")}},
    words={"mae": "MAE"},
    group="Unlisted",
)


def test_a_variant_is_called_by_its_label_or_its_name_and_by_what_it_changes() -> None:
    printed = [NAMES.run(run_of(named)) for named in ("first", "first/b", "first/a", "first/c", "second")]
    assert printed == ["First", "B, all", "a, none", "c", "Second"]


def test_what_is_not_listed_is_printed_as_it_is_in_a_group_of_its_own() -> None:
    assert NAMES.run(("plugin", "base")) == "plugin"
    assert NAMES.group_of(("plugin", "base")) == "Unlisted"
    assert (NAMES.word("mae"), NAMES.word("pehe")) == ("MAE", "pehe")


def test_runs_stand_in_the_order_of_the_list_and_others_after_them_by_name() -> None:
    named = ["zeta", "second", "first/c", "first/a", "first/b", "first", "alpha"]
    ordered = sorted(map(run_of, named), key=NAMES.order)
    assert ordered == [run_of(each) for each in ("first", "first/b", "first/a", "first/c", "second", "alpha", "zeta")]


def test_every_method_of_the_package_has_a_name_in_print() -> None:
    assert set(methods.names()) <= set(read_names(CONFIG / "names.yaml").methods)


def test_listed_variants_are_variants_of_a_study() -> None:
    studies = [read_study(CONFIG / "studies", path.stem) for path in (CONFIG / "studies").glob("*.yaml")]
    known = {(method, variant) for study in studies for method, of in study.variants.items() for variant in of}
    listed = read_names(CONFIG / "names.yaml").variants
    assert {(method, variant) for method, of in listed.items() for variant in of} <= known


def test_a_misspelt_key_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text("methods: {}\ngroup: Methods\nword: {}\n")
    with pytest.raises(
        InputError, match="unknown key 'word', expected one of group, methods, unranked, variants, words"
    ):
        read_names(path)


def test_a_dataset_that_is_a_part_is_named_as_that_part() -> None:
    """A label would hide it; what series are parts of is said by notes."""
    for path in (CONFIG / "datasets").glob("*.yaml"):
        dataset = read_dataset(path)
        if isinstance(dataset, PanelDataset | TrajectoryDataset):
            settings = dataset.panel if isinstance(dataset, PanelDataset) else dataset.trajectories
            assert not (settings.part and dataset.label), path.name


def test_no_code_of_the_report_knows_a_method_or_a_dataset() -> None:
    known = {*methods.names(), *(path.stem for path in (CONFIG / "datasets").glob("*.yaml"))}
    for path in Path(fedloom.report.__file__).parent.rglob("*.py"):
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not texts & known, path.name


def test_every_drawing_function_is_found_once_and_says_what_it_draws() -> None:
    defined = [
        node.name
        for path in Path(fedloom.report.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    for name, drawing in drawings().items():
        assert defined.count(name) == 1, name
        assert drawing.function.__doc__, name
