"""Readers of points: one function a raw layout, which yields blocks and counts what it kept out.

Files are streamed in blocks of some megabytes, so memory does not grow with the file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedloom.data.named import Readers
from fedloom.data.points.blocks import Floats, Integers, Points, Progress, Tally, Vehicles
from fedloom.data.points.polylines import BAD, parse_polylines, repeated, stamps
from fedloom.data.points.trips import Trips, trip_frames
from fedloom.data.raw import Raw, RawFolder
from fedloom.errors import InputError

BLOCK_BYTES = 16 << 20
BLOCK_ROWS = 500_000
SECONDS = 15
PORTO = ("TRIP_ID", "TAXI_ID", "TIMESTAMP", "MISSING_DATA", "POLYLINE")


class Block(NamedTuple):
    """Some rows of a file, the columns that were asked for, and the share of the file that is read."""

    rows: pd.DataFrame
    share: float


def polylines(raw: RawFolder, tally: Tally, progress: Progress) -> Iterator[Points]:
    """Trips as the Porto taxi data have them: one row a trip, a point every 15 s from ``TIMESTAMP`` on.

    Left out are trips whose id came before, those that say they miss data (their later stamps would be wrong) and
    those without a point. A trip of a single point is kept: the vehicle was there.
    """
    vehicles, seen = Vehicles(), set[str]()
    for block in _blocks(raw.open("trips"), PORTO, tally):
        yield trips_of_polylines(block.rows, tally, vehicles, seen)
        progress(tally.points, block.share)


def trips_of_polylines(rows: pd.DataFrame, tally: Tally, vehicles: Vehicles, seen: set[str]) -> Points:
    """Return the points of trips with the columns ``PORTO``, as text; ``seen`` holds the ids of earlier trips."""
    tally.rows += len(rows)
    counts, points_N2 = parse_polylines(rows["POLYLINE"].tolist())
    first = _seconds(rows["TIMESTAMP"])
    reasons = {
        "rows_with_bad_json": counts == BAD,
        "rows_without_stamp": first < 0,
        "rows_without_vehicle": rows["TAXI_ID"].eq("").to_numpy(),
        "repeated_trips": repeated(rows["TRIP_ID"].tolist(), seen),
        "trips_that_miss_data": (rows["MISSING_DATA"].str.lower() == "true").to_numpy(),
        "trips_without_points": counts == 0,
    }
    kept = tally.sift(reasons)
    tally.add("trips_of_one_point_kept", (kept & (counts == 1)).sum())
    counts = np.maximum(counts, 0)
    found = points_N2[np.repeat(kept, counts)]
    counts = counts[kept]
    vehicle = vehicles.numbers(rows["TAXI_ID"][kept])
    return Points(np.repeat(vehicle, counts), stamps(first[kept], counts, SECONDS), found[:, 1], found[:, 0])


def trips(
    raw: RawFolder,
    tally: Tally,
    progress: Progress,
    *,
    vehicle: str = "vehicle",
    start: str = "start",
    end: str = "end",
    divisor: int = 1,
) -> Iterator[Points]:
    """Trips with their two ends, one row a trip: both the pick-up and the drop-off are points.

    ``start`` and ``end`` are prefixes of the columns ``{prefix}_t`` (seconds since 1970, UTC), ``{prefix}_lat`` and
    ``{prefix}_lon`` (degrees), with ``_e5`` behind the coordinates where ``divisor`` is 100000, and so on.
    """
    ends = [_columns(f"{prefix}_t", f"{prefix}_lat", f"{prefix}_lon", divisor) for prefix in (start, end)]
    yield from _points(raw.open("trips"), tally, progress, vehicle, ends, divisor)


def points(
    raw: RawFolder,
    tally: Tally,
    progress: Progress,
    *,
    vehicle: str = "vehicle",
    divisor: int = 1,
) -> Iterator[Points]:
    """Points, one row each: ``t`` (seconds since 1970, UTC), ``lat``, ``lon`` (degrees; ``divisor`` as for trips)."""
    yield from _points(raw.open("points"), tally, progress, vehicle, [_columns("t", "lat", "lon", divisor)], divisor)


def generated_points(settings: Trips, tally: Tally, progress: Progress) -> Iterator[Points]:
    """The points of generated trips, by the way that trips in a file go."""
    vehicles, seen = Vehicles(), set[str]()
    for day, frame in enumerate(trip_frames(settings), 1):
        yield trips_of_polylines(frame, tally, vehicles, seen)
        progress(tally.points, day / settings.days)


READERS = Readers[Iterator[Points]]("panel: hexagons", polylines, trips, points)


def _columns(time: str, lat: str, lon: str, divisor: int) -> tuple[str, str, str]:
    digits = len(str(divisor)) - 1
    if 10**digits != divisor:
        raise InputError(f"panel: options: divisor: expected a power of ten, found {divisor}")
    suffix = f"_e{digits}" if digits else ""
    return time, lat + suffix, lon + suffix


def _points(
    file: Raw, tally: Tally, progress: Progress, vehicle: str, places: list[tuple[str, str, str]], divisor: int
) -> Iterator[Points]:
    vehicles = Vehicles()
    for block in _blocks(file, (vehicle, *(name for place in places for name in place)), tally):
        rows = block.rows
        tally.rows += len(rows)
        stamped = [_seconds(rows[time]) for time, _, _ in places]
        reasons = {
            "rows_without_stamp": np.any([time < 0 for time in stamped], axis=0),
            "rows_without_vehicle": (rows[vehicle].isna() | rows[vehicle].eq("")).to_numpy(),
        }
        kept = tally.sift(reasons)
        number = vehicles.numbers(rows[vehicle][kept])
        for time, (_, lat, lon) in zip(stamped, places, strict=True):
            of = (_numbers(rows[name])[kept] / divisor for name in (lat, lon))
            yield Points(number, time[kept], *of)
        progress(tally.points, block.share)


def _numbers(column: pd.Series) -> Floats:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds(column: pd.Series) -> Integers:
    """Return seconds since 1970; -1 for what is no such number."""
    found = _numbers(column)
    sound = np.isfinite(found) & (found >= 0) & (found < 2**40)
    return np.where(sound, found, -1).astype(np.int64)


def _blocks(file: Raw, columns: tuple[str, ...], tally: Tally) -> Iterator[Block]:
    try:
        if file.form == "parquet":
            table = pyarrow.parquet.ParquetFile(file.path)
            done, total = 0, max(1, table.metadata.num_rows)
            missing = [name for name in columns if name not in table.schema_arrow.names]
            if missing:
                raise InputError(f"{file.path}: expected columns {', '.join(columns)}, found no {missing[0]!r}")
            for batch in table.iter_batches(BLOCK_ROWS, columns=list(columns)):
                done += len(batch)
                yield Block(batch.to_pandas(), done / total)
        else:
            yield from _csv_blocks(file, columns, tally)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{file.path}: expected {file.form}, found {' '.join(str(error).split())}") from error


def _csv_blocks(file: Raw, columns: tuple[str, ...], tally: Tally) -> Iterator[Block]:
    def of_other_width(_: Any) -> str:
        tally.rows += 1
        tally.add("rows_of_other_width", 1)
        return "skip"

    convert = pyarrow.csv.ConvertOptions(
        include_columns=list(columns), column_types={name: pa.string() for name in columns}, strings_can_be_null=False
    )
    with ExitStack() as stack:
        handle = stack.enter_context(open(file.path, "rb"))
        reader = pyarrow.csv.open_csv(
            _unpacked(handle, file, stack),
            pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            pyarrow.csv.ParseOptions(invalid_row_handler=of_other_width),
            convert,
        )
        total = max(1, file.path.stat().st_size)
        for batch in reader:
            yield Block(batch.to_pandas(), min(1.0, handle.tell() / total))


def _unpacked(handle: BinaryIO, file: Raw, stack: ExitStack) -> Any:
    """Return the text of a table that is packed with gzip, or as the only csv of a zip, itself perhaps in a zip."""
    packing = file.form.rpartition(".")[2]
    if packing == "gz":
        return stack.enter_context(pa.CompressedInputStream(pa.PythonFile(handle, "r"), "gzip"))
    if packing != "zip":
        return handle
    inner: Any = handle
    for _ in range(2):
        archive = stack.enter_context(zipfile.ZipFile(inner))
        names = [name for name in archive.namelist() if name.rpartition("/")[2] in ("train.csv", "train.csv.zip")]
        if len(names) != 1:
            raise InputError(f"{file.path}: expected one train.csv in the archive, found {len(names)}")
        inner = stack.enter_context(archive.open(names[0]))
        if names[0].endswith(".csv"):
            return inner
    raise InputError(f"{file.path}: expected train.csv in the archive or in one inside, found none")
