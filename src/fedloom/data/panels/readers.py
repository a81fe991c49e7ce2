"""Readers: one function a raw layout, found by the name that a dataset's file gives. Options are keyword arguments."""

from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd

from fedloom.data.named import Readers
from fedloom.data.panels.readings import Readings
from fedloom.data.raw import Raw, RawFolder
from fedloom.data.stamps import parse_stamps
from fedloom.data.tables import numbers, read_array, read_table, read_wide
from fedloom.errors import InputError


def speed(raw: RawFolder, *, header: bool = True) -> Readings:
    """METR-LA and PEMS-BAY as DCRNN publishes them: a wide table, sensor places, road distances.

    ``header``: whether places and distances have one (METR-LA) or are id, lat, lon and from, to, metres (PEMS-BAY).
    """
    places = raw.open("sensors")
    if header:
        table = read_table(places, dtype={"sensor_id": "str"}).rename(columns={"sensor_id": "id"})
    else:
        table = read_table(places, header=None, names=["id", "latitude", "longitude"], dtype={"id": "str"})
    positions = _positions(table, "latitude", "longitude")
    file = raw.open("distances")
    if file.form == "npz":
        distances = _pairs(read_array(file, "dist"), list(positions.index))
    else:
        distances = read_table(file, header=0 if header else None, dtype={0: "str", 1: "str"})
        distances = distances.set_axis(["src", "dst", "distance"], axis=1)
    return Readings(read_wide(raw.open("values")), positions, distances)


def flow(raw: RawFolder, *, start: str, interval_minutes: int = 5) -> Readings:
    """PEMS03/04/07/08 as ASTGNN publishes them: npz ``data`` [steps, sensors, channels], channel 0 = flow, no stamps.

    ``start``: the stamp of the first step, a convention. A table with stamps of its own is read as it is.
    """
    file = raw.open("values")
    if file.form == "npz":
        data = read_array(file, "data")[:, :, 0]
        names = [str(i) for i in range(data.shape[1])]
        if raw.has("sensors"):
            names = read_table(raw.open("sensors"), header=None, dtype="str")[0].tolist()
        stamps = pd.date_range(start, periods=len(data), freq=f"{interval_minutes}min", name="timestamp")
        values = pd.DataFrame(data, index=stamps, columns=names)
    else:
        values = read_wide(file)
    distances = read_table(raw.open("distances"), dtype={0: "str", 1: "str"}).iloc[:, :3]
    return Readings(values, distances=distances.set_axis(["src", "dst", "distance"], axis=1))


KNOWAIR_WEATHER = {
    "temperature": 3, "boundary_layer": 4, "humidity": 6, "pressure": 9, "wind_east": 13, "wind_north": 14
}  # fmt: skip
"""Channels of KnowAir as its publishers number them: 2 m above ground; at 950 hPa humidity and wind."""


def knowair(raw: RawFolder, *, start: str = "2015-01-01", channel: int = -1) -> Readings:
    """KnowAir as PM2.5-GNN publishes it: npy [steps, cities, 18], PM2.5 last; cities as lines index name lon lat.

    Some of the weather is each city's covariate.
    """
    cities = read_table(raw.open("cities"), header=None, sep=r"\s+", names=["index", "id", "lon", "lat"])
    positions = _positions(cities, "lat", "lon")
    data = read_array(raw.open("values"))
    stamps = pd.date_range(start, periods=len(data), freq="3h", name="timestamp")
    values = pd.DataFrame(np.asarray(data[:, :, channel]), index=stamps, columns=list(positions.index))
    own = [f"{name}/{city}" for name in KNOWAIR_WEATHER for city in positions.index]
    weather = np.concatenate([data[:, :, place] for place in KNOWAIR_WEATHER.values()], axis=1)
    return Readings(values, positions, features=pd.DataFrame(weather, index=stamps, columns=own).astype("float32"))


def pedestrians(raw: RawFolder) -> Readings:
    """Melbourne's hourly counts, columns ``s01`` ...; places by sensor number; half-hourly temperature.

    Where there are such files, also holidays and what the weather station at the airport observes twice a day.
    """
    places = read_table(raw.open("sensors"))
    places = places.assign(id=[f"s{int(number):02d}" for number in places["Sensor ID"]]).drop_duplicates("id")
    values = read_wide(raw.open("values"))
    weather = raw.open("temperature")
    degrees = read_table(weather)
    temperature = degrees["temp_c"].set_axis(parse_stamps(degrees["ts_local"], weather.path))
    features = pd.DataFrame({"temperature": temperature[~temperature.index.duplicated()].reindex(values.index)})
    if raw.has("holidays"):
        days = raw.open("holidays")
        holidays = parse_stamps(read_table(days, header=None, dtype="str")[0], days.path, "%d/%m/%Y")
        features["holiday"] = values.index.normalize().isin(holidays)
    if raw.has("weather"):
        features = features.join(_observations(raw.open("weather"), values.index))
    return Readings(values, _positions(places, "Latitude", "Longitude"), features=features.astype("float32"))


def _observations(file: Raw, index: pd.Index) -> pd.DataFrame:
    """Return the last observation at 9 and at 15 o'clock, so that no hour knows what was observed after it."""
    table = read_table(file)
    table = table[table["Location"] == "MelbourneAirport"]
    day = parse_stamps(table["Date"], file.path, "%Y-%m-%d")
    found = {}
    for name, column in (
        ("humidity", "Humidity"),
        ("pressure", "Pressure"),
        ("wind_speed", "WindSpeed"),
        ("cloud", "Cloud"),
    ):
        parts = [table[f"{column}{at}"].set_axis(day + pd.Timedelta(hours=h)) for at, h in (("9am", 9), ("3pm", 15))]
        found[name] = pd.concat(parts).dropna()
    found["rainfall"] = table["Rainfall"].set_axis(day + pd.Timedelta(hours=9)).dropna()  # of 24 hours up to then
    return pd.DataFrame({name: series.sort_index().reindex(index, method="ffill") for name, series in found.items()})


def beijing(raw: RawFolder, *, quantity: str = "PM2.5") -> Readings:
    """Beijing PRSA (UCI 501): one file a station; ``quantity`` is forecast, the weather is each station's covariate."""
    positions = _positions(read_table(raw.open("stations")).rename(columns={"station": "id"}), "lat", "lon")
    series: dict[str, pd.Series] = {}
    weather: dict[str, pd.Series] = {}
    for station in positions.index:
        file = raw.open(str(station))
        table = _station(file, str(station))
        hours = pd.to_datetime(table[["year", "month", "day", "hour"]])
        table = table.set_axis(parse_stamps(hours, file.path), axis=0)
        if quantity not in table:
            raise InputError(f"{file.path}: quantity: expected one of {list(table)}, found {quantity!r}")
        series[str(station)] = table[quantity]
        weather |= {f"{name}/{station}": table[name] for name in ("TEMP", "PRES", "DEWP", "RAIN", "WSPM")}
    return Readings(pd.DataFrame(series), positions, features=pd.DataFrame(weather).astype("float32"))


def _station(file: Raw, station: str) -> pd.DataFrame:
    """One station's table, from a file of its own or out of the official archive of an archive."""
    if file.form != "zip":
        return read_table(file)
    try:
        with zipfile.ZipFile(file.path) as outer:
            (inner,) = [name for name in outer.namelist() if name.startswith("PRSA2017")]
            with outer.open(inner) as packed, zipfile.ZipFile(packed) as archive:
                (member,) = [name for name in archive.namelist() if f"_{station}_" in name]
                return pd.read_csv(archive.open(member))
    except (ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{file.path}: expected the archive of UCI 501 with {station}, found {error}") from error


def scats(raw: RawFolder) -> Readings:
    """SCATS volumes: one row an approach and day, columns V00..V95 the quarter hours; latitude 0 is unknown."""
    file = raw.open("values")
    table = read_table(file)
    ids = table["SCATS Number"].astype("str") + "-" + table["VR Internal Loc"].astype("str")
    day = parse_stamps(table["Date"], file.path, "%d/%m/%y")
    quarters = [f"V{i:02d}" for i in range(96)]
    long = numbers(table[quarters], file.path).set_axis(pd.MultiIndex.from_arrays([ids, day]), axis=0).stack()
    offset = pd.to_timedelta(long.index.get_level_values(2).str[1:].astype(int) * 15, unit="min")
    long.index = pd.MultiIndex.from_arrays([long.index.get_level_values(1) + offset, long.index.get_level_values(0)])
    if long.index.duplicated().any():
        raise InputError(
            f"{file.path}: expected each approach and day once, found {long.index[long.index.duplicated()][0]}"
        )
    places = table[["NB_LATITUDE", "NB_LONGITUDE"]].replace(0, np.nan).assign(id=ids).drop_duplicates("id")
    return Readings(long.unstack().rename_axis(index="timestamp"), _positions(places, "NB_LATITUDE", "NB_LONGITUDE"))


def detectors(raw: RawFolder, *, quantity: str = "volume") -> Readings:
    """DelDOT loop detectors: one row a detector and step; the other two quantities are each detector's covariates."""
    file = raw.open("values")
    long = read_table(file)
    quantities = ("volume", "speed_mph", "occupancy_pct")
    if quantity not in quantities:
        raise InputError(f"{file.path}: quantity: expected one of {', '.join(quantities)}, found {quantity!r}")
    long = long.assign(detector=long["detector"].astype("str"), timestamp=parse_stamps(long["time_local"], file.path))
    long = long.drop_duplicates(["detector", "timestamp"]).set_index(["timestamp", "detector"])
    wide = {name: long[name].unstack() for name in quantities}
    others = [wide[name].add_prefix(f"{name}/") for name in quantities if name != quantity]
    return Readings(wide[quantity], features=pd.concat(others, axis=1).astype("float32"))


def csv(raw: RawFolder) -> Readings:
    """One's own data: ``values`` (a column of stamps, then one a node), optional ``nodes`` (id, lat, lon), ``edges``
    (src, dst, weight) and ``features`` (stamps, then covariates)."""
    values = read_wide(raw.open("values"))
    positions = edges = features = None
    if raw.has("nodes"):
        file = raw.open("nodes")
        listed = _columns(read_table(file, dtype={"id": "str"}), ["id", "lat", "lon"], str(file.path))
        positions = listed.set_index("id")
    if raw.has("edges"):
        file = raw.open("edges")
        edges = _columns(read_table(file, dtype={"src": "str", "dst": "str"}), ["src", "dst", "weight"], str(file.path))
    if raw.has("features"):
        features = read_wide(raw.open("features")).astype("float32")
    return Readings(values, positions, edges=edges, features=features)


READERS = Readers[Readings]("panel", speed, flow, knowair, pedestrians, beijing, scats, detectors, csv)


def _positions(table: pd.DataFrame, lat: str, lon: str) -> pd.DataFrame:
    ids = pd.Index(table["id"].astype("str"), name="id")
    return pd.DataFrame({"lat": table[lat].to_numpy(float), "lon": table[lon].to_numpy(float)}, index=ids)


def _pairs(matrix: np.ndarray, ids: list[str]) -> pd.DataFrame:
    src, dst = np.nonzero(np.isfinite(matrix))
    names = np.asarray(ids, dtype=object)
    return pd.DataFrame({"src": names[src], "dst": names[dst], "distance": matrix[src, dst].astype(float)})


def _columns(table: pd.DataFrame, needed: list[str], where: str) -> pd.DataFrame:
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(f"{where}: expected columns {', '.join(needed)}, found no {missing[0]!r}")
    return table
