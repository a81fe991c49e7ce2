"""Raw files of every layout become series; what is cleaned or left out follows a rule and is counted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.series.build import build_series
from fedloom.data.series.settings import SeriesSettings, Source
from fedloom.data.series.table import SeriesSet, read_series, write_series
from fedloom.errors import InputError

Put = Callable[[Path, str, str, bytes | Path], None]

CASES = b"""# a note
@problemName Toy
@classLabel true left right
@data
1,2,3:4,5,6:right
7,8,?:1,1,1:left
"""
TSF = b"""# a note
@attribute series_name string
@attribute start_timestamp date
@frequency daily
@data
T1:1915-01-01 00-00-00:11.5,10.8,?
T2:1915-01-02 00-00-00:4
"""


def build(sources: dict[str, Source], raw: Path) -> SeriesSet:
    return build_series(SeriesSettings("x", sources=sources), raw)


def table(put: Put, folder: Path, text: str, **settings: object) -> SeriesSet:
    put(folder, "a", "csv", text.encode())
    source = Source("table", "toy", {"a": "a"}, **settings)  # type: ignore[arg-type]
    return build({"client": source}, folder)


def values(data: SeriesSet, row: int = 0) -> list[float]:
    return data.table["values"].iloc[row].tolist()


def test_every_column_of_numbers_is_a_series(put: Put, tmp_path: Path) -> None:
    text = "when,place,a,b\n2024-01-01 00:00,here,1,2\n2024-01-01 01:00,there,3,4\n"
    data = table(put, tmp_path, text, options={"stamp": "when"}, seconds=3600.0, season=24)
    assert data.table["channel"].tolist() == ["a", "b"]
    assert [values(data), values(data, 1)] == [[1, 3], [2, 4]]
    assert str(data.table["start"].iloc[0]) == "2024-01-01 00:00:00"
    assert data.about["exclusions"] == {}
    assert data.about["cleaned"] == {}


def test_sentinels_infinite_and_huge_values_are_missing(put: Put, tmp_path: Path) -> None:
    data = table(put, tmp_path, "v\n1\n-9999\ninf\n1e300\n2\n", missing=(-9999.0,))
    np.testing.assert_array_equal(values(data), [1, np.nan, np.nan, np.nan, 2])
    assert data.about["cleaned"]["client"] == {"sentinel_points_to_missing": 1, "infinite_points_to_missing": 2}


def test_duplicate_unsorted_skipped_and_crowded_stamps_give_an_even_axis(put: Put, tmp_path: Path) -> None:
    stamps = ["00:00", "02:00", "01:00", "01:00", "02:10", "05:00"]
    text = "t,v\n" + "".join(f"2024-01-01 {s},{i}\n" for i, s in enumerate(stamps))
    data = table(put, tmp_path, text, options={"stamp": "t"}, seconds=3600.0)
    np.testing.assert_array_equal(values(data), [0, 2, 1, np.nan, np.nan, 5])
    assert data.about["cleaned"]["client"] == {
        "unsorted_stamps": 1,
        "duplicate_stamps_left_out": 1,
        "points_within_an_interval_left_out": 1,
        "skipped_steps_as_missing": 2,
    }


def test_irregular_series_keep_their_points_in_order(put: Put, tmp_path: Path) -> None:
    text = "t,v\n2024-01-02,2\n2024-01-01,1\n2024-03-01,3\n"
    assert values(table(put, tmp_path, text, options={"stamp": "t"})) == [1, 2, 3]


def test_missing_ends_are_cut_off_and_the_start_moves_along(put: Put, tmp_path: Path) -> None:
    data = table(put, tmp_path, "v,w\n,1\n5,2\n6,3\n,4\n", seconds=60.0, options={"start": "2024-01-01"})
    assert values(data) == [5, 6]
    assert values(data, 1) == [1, 2, 3, 4]
    assert str(data.table["start"].iloc[0]) == "2024-01-01 00:01:00"
    assert data.about["cleaned"]["client"] == {"missing_ends_cut_off": 2}


def test_constant_single_and_empty_channels_are_left_out(put: Put, tmp_path: Path) -> None:
    text = "good,constant,single,empty\n1,7,3,\n2,7,,\n3,7,,\n"
    data = table(put, tmp_path, text, options={"columns": "good; constant; single; empty"})
    assert data.table["channel"].tolist() == ["good"]
    assert data.about["exclusions"]["client"] == {"constant": 1, "only_one_value": 1, "all_missing": 1}


def test_a_dataset_without_any_usable_series_is_refused(put: Put, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x: expected series, found none that can be used"):
        table(put, tmp_path, "v\n7\n7\n")


def test_series_of_unequal_length_come_from_tsf(put: Put, tmp_path: Path) -> None:
    put(tmp_path, "m", "tsf", TSF)
    data = build({"river": Source("tsf", "nature", {"m": "m"}, seconds=86400.0)}, tmp_path)
    assert data.table["id"].tolist() == ["T1"]
    np.testing.assert_allclose(values(data), [11.5, 10.8], rtol=1e-6)
    assert data.about["exclusions"]["river"] == {"only_one_value": 1}


def test_cases_of_a_classification_keep_all_channels_and_their_part(put: Put, tmp_path: Path) -> None:
    put(tmp_path, "a", "ts", CASES)
    put(tmp_path, "b", "ts", CASES)
    source = Source("cases", "motion", {"train": "a", "test": "b"}, tasks=("classification",))
    data = build({"toy": source}, tmp_path)
    assert data.table["id"].tolist() == [f"{p}-{i:04d}" for p in ("train", "test") for i in (0, 0, 1, 1)]
    assert data.table["test"].tolist() == [3, 3, 3, 3, 0, 0, 0, 0]
    assert [list(label) for label in data.table["label"][:4]] == [[1], [1], [0], [0]]
    np.testing.assert_array_equal(values(data, 2), [7, 8, np.nan])


def test_pretraining_on_a_seen_source_gets_its_training_part_without_labels(put: Put, tmp_path: Path) -> None:
    text = "v,event\n" + "".join(f"{i},{i % 2}\n" for i in range(10))
    data = table(put, tmp_path, text, options={"label": "event"}, seen=True, share=0.4)
    assert values(data) == [0, 1, 2, 3]
    assert data.table["label"].iloc[0] is None
    assert data.about["seen"] == ["client"]


def test_anomalies_are_labelled_by_a_column_or_between_stamps(put: Put, tmp_path: Path) -> None:
    text = "t,v,event\n" + "".join(f"2024-01-{i + 1:02d},{i},{int(i == 2)}\n" for i in range(10))
    common = {"tasks": ("anomaly",), "split": (0.4, 0.2, 0.4), "seconds": 86400.0}
    by_column = table(put, tmp_path, text, options={"stamp": "t", "label": "event"}, **common)
    assert by_column.table["label"].iloc[0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert by_column.table[["validation", "test"]].iloc[0].tolist() == [4, 6]
    pairs = {"a": (("2024-01-02", "2024-01-03"),)}
    by_stamp = table(put, tmp_path, text, options={"stamp": "t", "columns": "v"}, labels=pairs, **common)
    assert by_stamp.table["label"].iloc[0].tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0]


def test_m4_forecasts_the_last_points(put: Put, tmp_path: Path) -> None:
    data = table(put, tmp_path, "v\n1\n2\n3\n4\n", tasks=("m4",), horizon=3)
    assert data.table[["validation", "test"]].iloc[0].tolist() == [1, 1]


def test_three_files_join_to_one_recording_with_its_parts(put: Put, tmp_path: Path) -> None:
    for key, text in (("a", "v,e\n1,0\n2,0\n"), ("b", "v,e\n3,1\n"), ("c", "v,e\n4,0\n5,1\n6,0\n")):
        put(tmp_path, key, "csv", text.encode())
    options = {"columns": "v", "label": "e"}
    source = Source("table", "toy", {k: k for k in "abc"}, options=options, joined=True, tasks=("anomaly",))
    data = build({"joined": source}, tmp_path)
    assert values(data) == [1, 2, 3, 4, 5, 6]
    assert data.table["label"].iloc[0].tolist() == [0, 0, 1, 0, 1, 0]
    assert data.table[["validation", "test"]].iloc[0].tolist() == [2, 3]


def test_a_file_inside_an_archive_is_read(put: Put, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("toy/data/v.csv", "v\n1\n2\n")
    put(tmp_path, "wheel", "whl", packed.getvalue())
    data = build({"toy": Source("table", "toy", {"v": "wheel!toy/data/v.csv"})}, tmp_path)
    assert values(data) == [1, 2]
    with pytest.raises(InputError, match=r"expected an archive with toy/other\.csv"):
        build({"toy": Source("table", "toy", {"v": "wheel!toy/other.csv"})}, tmp_path)


def test_series_of_another_dataset_are_taken_as_they_are(put: Put, tmp_path: Path) -> None:
    made = table(put, tmp_path / "raw", "v\n1\n2\n3\n")
    write_series(made, tmp_path / "series")
    again = build_series(SeriesSettings("y", series_of="x"), tmp_path, tmp_path / "series")
    assert again.about["dataset"] == "y"
    assert again.table.equals(read_series(tmp_path / "series").table)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("v\n1\n", {"stamp": "t"}, "expected a column 't', found none"),
        ("v\none\n", {"columns": "v"}, "column 'v', row 1: expected a number, found 'one'"),
        ("t,v\nnoon,1\n", {"stamp": "t"}, "column 't', row 1: expected a stamp like 2024-03-31, .*, found 'noon'"),
        ("name\nx\n", {}, "expected columns of numbers, found name"),
        ("", {}, "expected a table, found an empty file"),
        ("v\n", {"columns": "v"}, "expected series, found none"),
        ("v\n1\n", {"colour": "red"}, "options of reader table: expected stamp"),
    ],
)
def test_a_damaged_table_is_one_line(text: str, options: dict, said: str, put: Put, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        table(put, tmp_path, text, options=options)


@pytest.mark.parametrize(
    ("reader", "content", "said"),
    [
        ("tsf", b"T1:1,2\n", "expected a line @data"),
        ("tsf", TSF + b"T3:1,2\n", "line 8: expected 2 attributes, found 1"),
        ("tsf", TSF + b"T3:1915-01-01 00-00-00:1,x\n", "line 8: expected numbers"),
        ("cases", CASES + b"1,2:3,4:up\n", "line 7: expected a class of left, right, found 'up'"),
        ("cases", CASES + b"1,2:3:left\n", "line 7: expected channels of one length"),
        ("nothing", b"", "reader: expected one of cases, table, tsf, found 'nothing'"),
    ],
)
def test_a_damaged_file_is_one_line(reader: str, content: bytes, said: str, put: Put, tmp_path: Path) -> None:
    put(tmp_path, "a", "txt", content)
    with pytest.raises(InputError, match=said):
        build({"client": Source(reader, "toy", {"a": "a"})}, tmp_path)


@pytest.mark.parametrize(
    "stamps",
    [
        ["2024-10-27T01:00:00+02:00", "2024-10-27T02:00:00+02:00", "2024-10-27T02:00:00+01:00"],
        ["27.10.2024 01:00", "27.10.2024 02:00", "27.10.2024 03:00"],
    ],
)
def test_stamps_have_offsets_or_are_written_as_the_pattern_says(stamps: list[str], put: Put, tmp_path: Path) -> None:
    text = "t,v\n" + "".join(f"{stamp},{i}\n" for i, stamp in enumerate(stamps))
    pattern = {"pattern": "%d.%m.%Y %H:%M"} if "." in stamps[0] else {}
    assert values(table(put, tmp_path, text, options={"stamp": "t", **pattern}, seconds=3600.0)) == [0, 1, 2]


def test_stamps_that_do_not_fit_the_interval_are_refused(put: Put, tmp_path: Path) -> None:
    text = "t,v\n2024-01-01,1\n2024-02-01,2\n"
    with pytest.raises(InputError, match="client/a: seconds: expected stamps about 60 s apart"):
        table(put, tmp_path, text, options={"stamp": "t"}, seconds=60.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tasks": ("guess",)}, "tasks: expected some of"),
        ({"bounds": (1, 2), "split": (0.5, 0.2, 0.3)}, "expected bounds or split, found both"),
        ({"joined": True}, "files: expected three to join"),
        ({"share": 0.0}, "share: expected a number in"),
        ({"horizon": 3}, "horizon: expected one with the task m4"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Source("table", "toy", {"a": "a"}, **settings)
    with pytest.raises(InputError, match="expected one of sources, collection, generate, series_of, found none"):
        SeriesSettings("x")
