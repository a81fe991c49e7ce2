"""Series: one row a channel of a recording, with who holds it, how it is sampled and what it may be used for.

The artifact is a folder with ``series.parquet`` and ``about.json``. Values are raw: scaling belongs to the partition,
which alone knows what is training. Pretraining federations and held-out targets have the same form.

A target says in ``tasks`` what it is for; an empty list means pretraining.

``forecast``, ``imputation``: long recordings, one row a channel; channels of one recording share ``id``. ``validation``
    and ``test`` are the first points of these parts (ETT 12/4/4 months, others 70/10/20); ``values`` ends where the
    benchmark ends.
``m4``: short recordings; ``validation`` = ``test`` = first of the ``horizon`` last points.
``anomaly``: ``label`` holds 0 or 1 a point, the same on all channels of an ``id``; training is unlabelled.
``classification``: one ``id`` a case, one row a channel, ``label`` holds the case's class alone, the same on all
    channels. A training case has ``validation`` = ``test`` = its length, a test case has both 0: all of a case is in
    one part.

The schema is checked when the artifact is written and again when it is read. This module imports only numpy,
pandas and pyarrow: training code reads series too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fedloom.data.described import read_described, require_keys, require_schema, write_described
from fedloom.errors import require

SCHEMA = pa.schema(
    {
        "client": pa.string(),
        "id": pa.string(),
        "channel": pa.string(),
        "domain": pa.string(),
        "seconds": pa.float64(),
        "start": pa.timestamp("ns"),
        "season": pa.int32(),
        "validation": pa.int64(),
        "test": pa.int64(),
        "tasks": pa.list_(pa.string()),
        "label": pa.list_(pa.int8()),
        "values": pa.list_(pa.float32()),
    }
)
TASKS = ("forecast", "imputation", "m4", "classification", "anomaly")
ABOUT_KEYS = ("dataset", "part", "clients", "domains", "counts", "exclusions", "cleaned", "seen", "bias")


@dataclass(frozen=True)
class SeriesSet:
    """Recordings of the clients of a federation, or of held-out targets.

    table: one row a channel. ``client`` (which dataset it is), ``id`` (recording), ``channel``, ``domain``;
        ``seconds`` between points (NaN where irregular or unknown), ``start`` (NaT where unknown), ``season`` (points
        of the main season, 0 where there is none); ``validation`` and ``test``, the first points of these parts, both
        -1 where the partition's shares decide; ``tasks``, ``label`` (None without) and ``values`` (float32 array, NaN
        where missing).
    about: ``dataset``; ``part`` (how a part of official data is named, or None); ``clients`` in order; ``domains``
        {client: domain}; ``counts`` {client: {series, points, missing}}; ``exclusions`` and ``cleaned`` {client:
        {reason: n}}; ``seen``, the clients whose source a downstream task also uses; ``bias`` {client: {name: value}},
        planted by a generator, else empty.
    """

    table: pd.DataFrame
    about: dict[str, Any]


def describe(table: pd.DataFrame) -> dict[str, Any]:
    """Clients in order of their first row, their domains, and how many series, points and missing points each has."""
    clients = list(dict.fromkeys(table["client"]))
    counts: dict[str, dict[str, int]] = {c: {"series": 0, "points": 0, "missing": 0} for c in clients}
    for client, values in zip(table["client"], table["values"], strict=True):
        counts[client]["series"] += 1
        counts[client]["points"] += len(values)
        counts[client]["missing"] += int(np.isnan(values).sum())
    domains = dict(zip(table["client"], table["domain"], strict=True))
    return {"clients": clients, "domains": domains, "counts": counts}


def write_series(data: SeriesSet, folder: Path) -> None:
    """Check ``data`` and write it to ``folder``; ``about.json`` comes last, so its presence means a whole artifact.

    Raises InputError for series that break the schema.
    """
    _check(data, "series")
    columns = [pa.array(data.table[field.name], type=field.type, from_pandas=True) for field in SCHEMA]
    write_described(folder, data.about, {"series": pa.Table.from_arrays(columns, schema=SCHEMA)}, rows=256)


def read_series(folder: Path) -> SeriesSet:
    """Read and check the artifact in ``folder``. Raises InputError for a missing file or one that breaks the schema."""
    tables, about = read_described(folder, ["series"])
    require_schema(tables["series"], SCHEMA, f"{folder}/series.parquet")
    texts = dict.fromkeys(("client", "id", "channel", "domain"), "str")
    data = SeriesSet(tables["series"].to_pandas().astype(texts), about)
    _check(data, str(folder))
    return data


def lengths(table: pd.DataFrame) -> NDArray[np.int64]:
    """Points of each series, [rows]."""
    return np.fromiter((len(values) for values in table["values"]), dtype=np.int64, count=len(table))


def series_names(table: pd.DataFrame) -> pd.Series:
    """client/id/channel of each series, which no other has."""
    return table[["client", "id", "channel"]].agg("/".join, axis=1)


def _check(data: SeriesSet, where: str) -> None:
    about, table = data.about, data.table
    require_keys(about, ABOUT_KEYS, where)
    require(list(table.columns) == SCHEMA.names, where, "columns", ", ".join(SCHEMA.names), ", ".join(table.columns))
    require(len(table) > 0, where, "rows", "at least one series", "none")
    for field, of_rows in describe(table).items():
        require(about[field] == of_rows, where, field, "those of the rows", "others")
    strangers = set(about["seen"]) - set(about["clients"])
    require(not strangers, where, "seen", "clients of the data", f"{min(strangers, default='')!r}")
    twice = table.duplicated(["client", "id", "channel"]).to_numpy()
    require(not twice.any(), where, "id", "each channel of a client's recording once", _name(table, twice))
    for column, sound in _sound(table).items():
        require(bool(sound.all()), where, column, EXPECTED[column], f"another at {_name(table, ~sound)}")


EXPECTED = {
    "client": "a name",
    "seconds": "a positive number, NaN where unknown",
    "season": "0 or more points",
    "values": "at least one float32 number, none infinite",
    "validation": "0 <= validation <= test <= length, or both -1",
    "tasks": f"some of {', '.join(TASKS)}",
    "label": "one entry a point, or one for the case",
}


def _sound(table: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """For every checked column whether each row holds what it must."""
    length = lengths(table)
    seconds = table["seconds"].to_numpy(float)
    validation, test = table["validation"].to_numpy(), table["test"].to_numpy()
    shared = (validation == -1) & (test == -1)
    labels = np.array([-1 if label is None else len(label) for label in table["label"]])
    values = [v.dtype == np.float32 and len(v) > 0 and not np.isinf(v).any() for v in table["values"]]
    return {
        "client": (table["client"].str.len() > 0).to_numpy(bool),
        "seconds": np.isnan(seconds) | (seconds > 0),
        "season": table["season"].to_numpy() >= 0,
        "values": np.array(values, dtype=bool),
        "validation": shared | ((validation >= 0) & (validation <= test) & (test <= length)),
        "tasks": np.array([set(tasks) <= set(TASKS) for tasks in table["tasks"]], dtype=bool),
        "label": (labels == -1) | (labels == 1) | (labels == length),
    }


def _name(table: pd.DataFrame, wrong: NDArray[np.bool_]) -> str:
    return f"series {series_names(table).iloc[int(wrong.argmax())]}"
