"""Files of claims: those of the project are right, and what is wrong with one is said in a line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fedloom.config.claims import read_claims
from fedloom.config.names import read_names
from fedloom.errors import InputError
from fedloom.report.claims.contradictions import contradictions
from fedloom.report.claims.words import Words
from fedloom.report.names import run_of
from fedloom.report.references import read_references

CLAIMS = """
numbers:
  mae: {metric: mae, where: {mask: masked}}
claims:
  better:
    says: It is better
    place: Sec. 1
    test: {relation: less, of: [mae], left: [atlas], right: [fedavg]}
contradictions:
  best:
    says: It is the best
    place: Table 1
    left: {of: {table: table1, method: atlas}}
    right: {of: {table: table1, method: fedavg|fuels}, how: least}
    relation: less
    each: [dataset, metric]
"""


def studies(repository: Path) -> list[str]:
    return sorted(path.stem for path in (repository / "config" / "claims").glob("*.yaml"))


@pytest.fixture
def config(repository: Path, tmp_path: Path) -> Path:
    """A config folder with few claims."""
    for name in ("studies", "references", "datasets"):
        shutil.copytree(repository / "config" / name, tmp_path / name)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "atlas.yaml").write_text(CLAIMS)
    return tmp_path


def test_every_file_of_claims_agrees_with_what_is_registered(repository: Path) -> None:
    assert studies(repository)
    for study in studies(repository):
        read = read_claims(repository / "config", study)
        assert read.claims
        published = read_references(repository / "config" / "references" / f"{study}.csv")
        assert set(contradictions(read.contradictions, published)["contradiction"]) == set(read.contradictions)


def test_numbers_of_a_file_are_told_apart_in_print(repository: Path) -> None:
    names = read_names(repository / "config" / "names.yaml")
    for study in studies(repository):
        numbers = read_claims(repository / "config", study).numbers
        printed = [Words(names, {}, numbers).number(name) for name in numbers]
        assert sorted(printed) == sorted(set(printed))
        assert not [text for text in printed if "_" in text]


def test_variants_that_claims_are_about_have_names_in_print(repository: Path) -> None:
    names = read_names(repository / "config" / "names.yaml")
    for study in studies(repository):
        for claim in read_claims(repository / "config", study).claims.values():
            for run in map(run_of, (*claim.test.left, *claim.test.right)):
                assert "_" not in names.run(run)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("left: [atlas]", "left: [altas]", "claims.better.test: a method: found 'altas', expected one of atlas"),
        (
            "left: [atlas]",
            "left: [atlas/A.9]",
            "claims.better.test: variant of atlas: found 'A.9', expected one of A.1",
        ),
        ("metric: mae", "metric: mea", "numbers.mae.metric: found 'mea', expected one of"),
        ("of: [mae]", "of: [mse]", "claims.better.test: a number: found 'mse', expected mae"),
        ("relation: less, of", "relation: smaller, of", "found 'smaller', expected one of at_least"),
        ("place: Sec. 1", "place: Sec. 1\n    datasets: [metrla]", "claims.better.datasets: found 'metrla', expected"),
        ("right: [fedavg]", "rigth: [fedavg]", "unknown key 'claims.better.test.rigth', expected one of"),
        (", right: [fedavg]", "", "claims.better.test.effect: expected one of one side, found 'relative'"),
        ("right: [fedavg]", "right: [fedavg], by: x", "claims.better.test: expected by or across with the effects"),
        (
            "right: [fedavg]",
            "right: [fedavg], bound: {table: t, metric: m}",
            "expected a printed value, found none for t",
        ),
        ("metric: mae,", "metric: mae, log: loss,", "numbers.mae: expected one of metric, log, record; found 2"),
        ("method: atlas}", "method: atals}", "contradictions.best.left.of: expected printed values, found none"),
        (
            "how: least}",
            "how: difference, to: {table: table9}}",
            "contradictions.best.right.to: expected printed values, found none",
        ),
        ("each: [dataset", "each: [datasets", "contradictions.best.each: found 'datasets', expected one of"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(config: Path, old: str, new: str, said: str) -> None:
    path = config / "claims" / "atlas.yaml"
    assert old in CLAIMS
    path.write_text(CLAIMS.replace(old, new))
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        read_claims(config, "atlas")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_contradictions_are_found_where_they_are_and_nowhere_else(config: Path) -> None:
    read = read_claims(config, "atlas")
    published = read_references(config / "references" / "atlas.csv")
    found = contradictions(read.contradictions, published)
    wrong = found[found["verdict"] == "contradicts"]
    assert wrong[["dataset", "metric", "left", "right"]].values.tolist() == [["metr-la", "rmse", 6.93, 6.88]]
    assert len(found) == 10
