"""What a paper claims, ``config/claims/{study}.yaml``: sentences with the tests that decide them, never code."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pydantic import Field

from fedloom.config.checks import Strict, choose, read_config
from fedloom.config.study import Study, read_study
from fedloom.errors import InputError
from fedloom.evaluation.schema import KNOWN
from fedloom.methods import registry as methods
from fedloom.report.claims.settings import (
    FITTED,
    FROM_TO,
    Claim,
    Contradiction,
    Predicate,
    Printed,
    Published,
    Quantity,
)
from fedloom.report.claims.verdicts import printed
from fedloom.report.names import run_of
from fedloom.report.references import COLUMNS, matching, read_references


class ClaimsFile(Strict):
    """The claims of one study's paper, and the contradictions inside what it prints."""

    numbers: dict[str, Quantity] = Field({}, description="numbers of runs, by the names that tests give them")
    claims: dict[str, Claim] = Field({}, description="what the paper says, and what decides it")
    contradictions: dict[str, Contradiction] = Field({}, description="what it prints and cannot all be true")


def claims_path(config: Path, study: str) -> Path:
    """The file of a study's claims."""
    return config / "claims" / f"{study}.yaml"


def read_claims(config: Path, name: str) -> ClaimsFile:
    """The claims of the study ``name`` below ``config``.

    Raises:
        InputError: an unknown key, method, variant, metric, dataset, number or printed value.
    """
    path = claims_path(config, name)
    study = read_study(config / "studies", name)
    read = read_config(ClaimsFile, path)
    published = read_references(config / "references" / f"{name}.csv")
    for each, quantity in read.numbers.items():
        _check_number(quantity, f"{path}: numbers.{each}")
    known = [each.stem for each in (config / "datasets").glob("*.yaml")]
    for each, claim in read.claims.items():
        for dataset in claim.datasets:
            choose(dataset, known, f"{path}: claims.{each}.datasets")
        _check_predicate(claim.test, read, study, published, known, f"{path}: claims.{each}.test")
    for each, contradiction in read.contradictions.items():
        where = f"{path}: contradictions.{each}"
        for side, asked in (("left", contradiction.left), ("right", contradiction.right)):
            _check_printed(asked, published, f"{where}.{side}")
        for column in contradiction.each:
            choose(column, COLUMNS[:-1], f"{where}.each")
    return read


def _check_number(quantity: Quantity, where: str) -> None:
    kinds = [quantity.metric, quantity.log, quantity.record]
    if sum(bool(kind) for kind in kinds) != 1:
        raise InputError(f"{where}: expected one of metric, log, record; found {sum(bool(kind) for kind in kinds)}")
    if quantity.metric:
        choose(quantity.metric, KNOWN, f"{where}.metric")


def _check_predicate(
    test: Predicate, read: ClaimsFile, study: Study, published: pd.DataFrame, datasets: list[str], where: str
) -> None:
    if not test.of or not test.left:
        raise InputError(f"{where}: expected at least one number (of) and one run (left), found none")
    for number in (*test.of, *([test.against] if test.against else [])):
        choose(number, read.numbers, f"{where}: a number")
    for named in (*test.left, *test.right):
        method, variant = run_of(named)
        choose(method, methods.names(), f"{where}: a method")
        choose(variant, ["base", *study.variants.get(method, {})], f"{where}: variant of {method}")
    if test.matched and len(test.left) != len(test.right):
        raise InputError(
            f"{where}.right: expected as many runs as on the left ({len(test.left)}), found {len(test.right)}"
        )
    two = bool(test.right or test.against or test.relation == "ordered")
    if two == (test.effect in (*FITTED, "value")):
        sides = "between two sides" if two else "of one side"
        raise InputError(f"{where}.effect: expected one {sides}, found {test.effect!r}")
    if (test.effect in FITTED) != (bool(test.by) != bool(test.across)):
        found = f"by {test.by!r}, across {list(test.across)}"
        raise InputError(f"{where}: expected by or across with the effects {', '.join(FITTED)}, found {found}")
    for dataset in test.across:
        choose(dataset, datasets, f"{where}.across")
    bound = test.bound
    if isinstance(bound, Published) and printed(bound, published).empty:
        raise InputError(f"{where}.bound: expected a printed value, found none for {bound.table}, {bound.metric}")


def _check_printed(asked: Printed, published: pd.DataFrame, where: str) -> None:
    if asked.how == "constant":
        return
    for side, rows in {"of": asked.of, **({"to": asked.to} if asked.how in FROM_TO else {})}.items():
        for column in rows:
            choose(column, COLUMNS[:-1], f"{where}.{side}")
        if matching(published, rows).empty:
            raise InputError(f"{where}.{side}: expected printed values, found none with {rows}")
