"""Numbers that a paper prints, from ``config/references/{study}.csv``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from fedloom.errors import InputError
from fedloom.evaluation.schema import CONDITION, check_table

COLUMNS = ["table", "dataset", "method", "variant", "condition", "metric", "value"]
REFERENCES = pa.DataFrameSchema(
    {name: pa.Column(str) for name in ("table", "dataset", "method", "variant")}
    | {
        "condition": pa.Column(str, pa.Check.str_matches(CONDITION)),
        "metric": pa.Column(str, pa.Check.str_matches(r"^[a-z][a-z0-9_]*$")),
        "value": pa.Column("float64", pa.Check(lambda values: values.abs() < float("inf"), name="a finite number")),
    },
    unique=COLUMNS[:-1],
    strict=True,
)


def read_references(path: Path) -> pd.DataFrame:
    """Read published values: table, dataset, method, variant, condition, metric, value.

    Raises InputError, naming file and column, where a column is missing or a value is no number.
    """
    if not path.is_file():
        raise InputError(f"{path}: expected published values, found no such file")
    frame = pd.read_csv(path, dtype=dict.fromkeys(COLUMNS[:-1], "str"), keep_default_na=False)
    found = pd.Series(dtype="float64")
    if "value" in frame:
        found = pd.to_numeric(frame["value"], errors="coerce").astype("float64")
    if found.isna().any():
        row = found.isna().idxmax()
        raise InputError(f"{path}: value: row {row + 2}: expected a number, found {frame['value'][row]!r}")
    return check_table(REFERENCES, frame.assign(value=found) if "value" in frame else frame, str(path))


def matching(published: pd.DataFrame, wanted: Mapping[str, str]) -> pd.DataFrame:
    """Return the published values whose columns match as ``wanted``: a regular expression of the whole text each."""
    chosen = pd.Series(True, index=published.index)
    for column, value in wanted.items():
        chosen &= published[column].str.fullmatch(value)
    return published[chosen]
