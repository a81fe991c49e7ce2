"""Decoding of raw files into frames, by form; every defect becomes one line that names the file and the place."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd

from fedloom.data.raw import Raw
from fedloom.data.stamps import parse_stamps
from fedloom.errors import InputError


def read_table(raw: Raw, **options: Any) -> pd.DataFrame:
    """The table in a parquet or (packed) CSV file; ``options`` go to ``pandas.read_csv``."""
    try:
        content: Any = raw.path if raw.data is None else io.BytesIO(raw.data)
        if raw.form == "parquet":
            return pd.read_parquet(content)
        name, _, packing = raw.form.partition(".")
        if name == "csv":
            packed: Any = {"": None, "gz": "gzip", "xz": "xz"}[packing]
            return pd.read_csv(content, compression=packed, **options)
    except pd.errors.EmptyDataError:
        raise InputError(f"{raw.path}: expected a table, found an empty file") from None
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise InputError(f"{raw.path}: expected {raw.form}, found {' '.join(str(error).split())}") from error
    raise InputError(f"{raw.path}: expected a table as parquet or csv, found form {raw.form!r}")


def read_lines(raw: Raw, encoding: str = "utf-8") -> list[str]:
    """The lines of a (packed) text file, without their ends."""
    unpack: Any = {"gz": gzip.decompress, "xz": lzma.decompress}.get(raw.form.rpartition(".")[2], bytes)
    try:
        content = raw.path.read_bytes() if raw.data is None else raw.data
        # Not splitlines: its line ends include signs of other encodings, such as 0x85 of Latin-1.
        with io.TextIOWrapper(io.BytesIO(unpack(content)), encoding=encoding) as lines:
            return [line.rstrip("\r\n") for line in lines]
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise InputError(f"{raw.path}: expected text as {raw.form}, found {error}") from error


def read_wide(raw: Raw) -> pd.DataFrame:
    """A table whose first column holds stamps and whose other columns are nodes, as numbers; pandas' HDF5 too.

    Its index is in UTC where all stamps have an offset from it, naive where none has.
    """
    if raw.form == "h5":
        return _read_hdf(raw.path)
    table = read_table(raw, dtype={0: "str"})
    if table.empty or len(table.columns) < 2:
        raise InputError(f"{raw.path}: expected stamps and at least one node, found a table of shape {table.shape}")
    stamps = parse_stamps(table.iloc[:, 0], raw.path)
    values = table.iloc[:, 1:].set_axis(stamps, axis=0)
    values.columns = values.columns.astype("str")
    repeated = [name for name in values.columns if name.endswith(".1") and name[:-2] in values.columns]
    if repeated:
        raise InputError(f"{raw.path}: expected each column once, found {repeated[0][:-2]!r} twice")
    return numbers(values, raw.path)


def numbers(values: pd.DataFrame, path: Path) -> pd.DataFrame:
    """``values`` with every column numeric. Raises InputError that names the first cell that holds text."""
    for name in values.columns:
        if not pd.api.types.is_numeric_dtype(values[name]):
            column = pd.to_numeric(values[name], errors="coerce")
            bad = (column.isna() & values[name].notna()).to_numpy()
            if bad.any():
                row = int(bad.argmax())
                raise InputError(
                    f"{path}: column {name!r}, row {row + 1}: expected a number, found {values[name].iloc[row]!r}"
                )
            values = values.assign(**{name: column})
    return values


def read_array(raw: Raw, key: str | None = None) -> np.ndarray:
    """An array from ``npy``, or from the entry ``key`` of ``npz``; never unpickles."""
    try:
        loaded = np.load(raw.path, allow_pickle=False, mmap_mode="r" if raw.form == "npy" else None)
        return loaded if key is None else loaded[key]
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{raw.path}: expected {raw.form} with {key or 'one array'}, found {error}") from error


def _read_hdf(path: Path) -> pd.DataFrame:
    """The only frame of a file in pandas' fixed HDF5 layout; a kind of stamp without a unit means nanoseconds."""
    try:
        with h5py.File(path) as file:
            (group,) = file.values()
            names, stamps, block = group["axis0"][:], group["axis1"][:], group["block0_values"][:]
            kind = group["axis1"].attrs.get("kind", b"datetime64")
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path}: expected one frame in pandas' HDF5 layout, found {error}") from error
    columns = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    stamps = stamps.astype(kind if "[" in kind else "datetime64[ns]")
    index = pd.DatetimeIndex(stamps, name="timestamp").as_unit("ns")
    return pd.DataFrame(block, index=index, columns=columns)
