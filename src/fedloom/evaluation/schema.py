"""The table of metrics: one row a number, one schema for every family of methods, checked at both ends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from fedloom.artifacts import atomic
from fedloom.errors import InputError

IDENTITY = ["dataset", "method", "variant", "seed"]
"""Columns that say which run a number belongs to."""

SERIES = ["split", "unit", "selection", "metric", "horizon", "condition"]
"""Columns that say which number of a run it is."""

SELECTIONS = ("selected", "last")
"""The rounds whose weights are judged: the one with the best validation score, and the last."""

KNOWN = frozenset(
    [
        "mae", "rmse", "mape", "mse", "nmi", "leakage", "correlation", "row_norm",
        "largest_use", "prototype_cosine", "use_distance",
        "pehe_mse", "pehe_mse_se", "pehe_root", "pehe_root_se", "ate_error", "ate_error_se", "effect_sd", "value",
        "value_se", "value_error",
        "value_lower", "value_upper",
        "ess", "matches", "max_weight", "clipped_share", "propensity_count", "weight_count", "auc", "tstr_auc",
        "tstr_rmse",
        "spread", "collapsed", "reads_history",
        "smape", "mase", "owa", "accuracy", "f1", "distance", "membership_auc",
    ]
)  # fmt: skip
"""Metrics that files of config may name."""

CONDITION = r"^([a-z_]+=[^=,]+(,[a-z_]+=[^=,]+)*)?$"
"""Conditions of a number: sorted ``key=value`` joined by commas, empty where there is none."""


def _sorted_keys(condition: str) -> bool:
    parts = condition.split(",")
    return parts == sorted(parts)


_text = pa.Column(str)
METRICS = pa.DataFrameSchema(
    {
        "dataset": _text,
        "method": _text,
        "variant": _text,
        "seed": pa.Column("int64", pa.Check.ge(0)),
        "split": pa.Column(str, pa.Check.isin(["train", "validation", "test"])),
        "unit": _text,
        "selection": pa.Column(str, pa.Check.isin(SELECTIONS)),
        "metric": pa.Column(str, pa.Check.str_matches(r"^[a-z][a-z0-9_]*$")),
        "horizon": pa.Column(str, pa.Check.str_matches(r"^(\d+|all)$")),
        "condition": pa.Column(
            str, [pa.Check.str_matches(CONDITION), pa.Check(_sorted_keys, element_wise=True, name="sorted keys")]
        ),
        "value": pa.Column("float64", nullable=True),
        "lo": pa.Column("float64", nullable=True),
        "hi": pa.Column("float64", nullable=True),
        "n": pa.Column("int64", pa.Check.ge(0)),
        "reason": pa.Column(str, nullable=True),
    },
    checks=pa.Check(
        lambda frame: frame["value"].isna() == frame["reason"].notna(), name="a value, or the reason why it is null"
    ),
    unique=IDENTITY + SERIES,
    strict=True,
    ordered=True,
)
"""``value``, ``lo`` and ``hi`` are in the metric's own unit; ``n`` counts what the value was computed from (readings
for a node and for ``pooled``, nodes for ``mean``); a null ``value`` has a ``reason``, and only a null one."""


def check_table(schema: pa.DataFrameSchema, frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return ``frame`` as ``schema`` has it; raise InputError with one line that names column, row and value if not."""
    columns = [str(column) for column in frame.columns]
    if sorted(columns) != sorted(schema.columns):
        raise InputError(f"{where}: expected columns {', '.join(schema.columns)}, found {', '.join(columns)}")
    try:
        return schema.validate(frame)
    except pa.errors.SchemaError as error:
        check = error.check
        expected = getattr(check, "error", None) or getattr(check, "name", None) or check
        case = error.failure_cases
        row = "" if not isinstance(case, pd.DataFrame) or "index" not in case else f" in row {case['index'].iloc[0]}"
        if not getattr(error.schema, "name", None):
            whole = "one row a number" if expected == "multiple_fields_uniqueness" else expected
            raise InputError(f"{where}: expected {whole}, found otherwise{row}") from None
        found = f"'{case['failure_case'].iloc[0]}'{row}" if row else "otherwise"
        raise InputError(f"{where}: column {error.schema.name!r}: expected {expected}, found {found}") from None


def write_metrics(frame: pd.DataFrame, path: Path) -> None:
    """Check ``frame`` against the schema and write it to ``path``, whole or not at all."""
    checked = check_table(METRICS, frame, str(path))
    with atomic(path) as temporary:
        checked.to_parquet(temporary, index=False, compression="zstd")


def read_metrics(path: Path) -> pd.DataFrame:
    """Read the metrics at ``path`` and check them; InputError names the file where they break the schema."""
    if not path.is_file():
        raise InputError(f"{path}: expected the metrics of a run, found no such file")
    return check_table(METRICS, pd.read_parquet(path), str(path))


def collect_metrics(files: Iterable[Path], path: Path) -> None:
    """Write the metrics in these files, one below the other, to ``path``: for users, no step reads them."""
    write_metrics(pd.concat([read_metrics(file) for file in files], ignore_index=True), path)
