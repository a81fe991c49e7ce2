"""Metrics that break the schema are neither written nor read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedloom.errors import InputError
from fedloom.evaluation.forecast.conditions import MASKED, UNMASKED
from fedloom.evaluation.forecast.errors import null_rows
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import read_metrics, write_metrics

SPEC = {"dataset": "regimes", "method": "atlas", "variant": "A.1", "seed": 3}


def metrics() -> pd.DataFrame:
    """Return the metrics of a diverged run."""
    rows = null_rows(["a", "b"], 12, "loss of client a is not finite", [MASKED, UNMASKED])
    return as_metrics(rows, SPEC, "selected")


def test_metrics_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_metrics(metrics(), tmp_path / "metrics.parquet")
    pd.testing.assert_frame_equal(read_metrics(tmp_path / "metrics.parquet"), metrics())


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("reason", None, "reason why it is null"),
        ("condition", "mask=masked,attack=none", "sorted keys"),
        ("condition", "masked", "condition"),
        ("horizon", "h3", "horizon"),
        ("selection", "best", "selection"),
        ("n", -1, "'n'"),
    ],
)
def test_a_broken_row_is_refused_with_the_file_and_what_was_expected(
    tmp_path: Path, column: str, value: object, expected: str
) -> None:
    broken = metrics()
    broken.loc[0, column] = value
    path = tmp_path / "metrics.parquet"
    with pytest.raises(InputError, match=expected) as caught:
        write_metrics(broken, path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not path.exists()
    broken.to_parquet(path)
    with pytest.raises(InputError, match=expected):
        read_metrics(path)


def test_a_value_with_a_reason_why_it_is_null_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reason why it is null"):
        write_metrics(metrics().assign(value=1.0), tmp_path / "metrics.parquet")


def test_the_same_number_twice_is_refused(tmp_path: Path) -> None:
    twice = pd.concat([metrics(), metrics()], ignore_index=True)
    with pytest.raises(InputError):
        write_metrics(twice, tmp_path / "metrics.parquet")


def test_missing_columns_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_metrics(tmp_path / "metrics.parquet")
    metrics().drop(columns="unit").to_parquet(tmp_path / "metrics.parquet")
    with pytest.raises(InputError, match="unit"):
        read_metrics(tmp_path / "metrics.parquet")
