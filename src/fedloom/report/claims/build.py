"""From files of claims, metrics and references to the two tables of a study: claims and contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedloom.evaluation.schema import read_metrics
from fedloom.report.claims.contradictions import contradiction_table, contradictions
from fedloom.report.claims.evidence import Evidence
from fedloom.report.claims.settings import Claim, Contradiction, Quantity
from fedloom.report.claims.tables import verdict_table
from fedloom.report.claims.verdicts import decide
from fedloom.report.claims.words import Words
from fedloom.report.layout import write_table
from fedloom.report.names import Names
from fedloom.report.references import read_references


@dataclass(frozen=True)
class Asked:
    """What a file of claims says, and the csv of the paper's numbers."""

    numbers: Mapping[str, Quantity]
    claims: Mapping[str, Claim]
    contradictions: Mapping[str, Contradiction]
    reference: Path


def write_claims(
    asked: Asked,
    scale: str,
    metrics: Sequence[Path],
    runs: Sequence[Path],
    names: Names,
    labels: Mapping[str, str],
    out: Path,
) -> None:
    """Write the tables ``claims`` and ``contradictions`` (csv, md, tex) to the folder ``out``."""
    published, words = read_references(asked.reference), Words(names, labels, asked.numbers)
    used = {quantity.metric for quantity in asked.numbers.values()}
    frames = [frame[frame["metric"].isin(used)] for frame in map(read_metrics, metrics)]
    decided = decide(asked.claims, words, Evidence(pd.concat(frames), runs), published)
    caption = f"What the paper claims, at scale {scale}"
    write_table(verdict_table(decided, words, caption), out / "claims")
    compared = contradictions(asked.contradictions, published)
    write_table(contradiction_table(compared, words, "What the paper prints against itself"), out / "contradictions")
