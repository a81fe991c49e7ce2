"""UTSD and LOTSA folders are read where a user has them: both arrow layouts, one channel or several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedloom.data.series.build import build_series
from fedloom.data.series.settings import Collection, SeriesSettings
from fedloom.data.series.table import SeriesSet
from fedloom.errors import InputError


def write(file: Path, rows: dict, stream: bool = True) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(rows)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(file), "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table)


def build(folder: Path, layout: str, **settings: object) -> SeriesSet:
    collection = Collection(str(folder), layout, **settings)  # type: ignore[arg-type]
    return build_series(SeriesSettings("own", collection=collection), folder)


def test_a_lotsa_folder_has_one_client_a_dataset(tmp_path: Path) -> None:
    many = [[[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]]
    start = [np.datetime64("2020-01-01T00:00:00", "s")]
    write(tmp_path / "sea" / "data-0.arrow", {"item_id": ["a"], "start": start, "freq": ["H"], "target": many})
    one = {"item_id": ["b", "c"], "start": start * 2, "freq": ["W"] * 2, "target": [[1.0, None, 3.0], [5.0, 5.0]]}
    write(tmp_path / "air" / "data-0.arrow", one, stream=False)
    write(tmp_path / "ett" / "data-0.arrow", one)
    data = build(tmp_path, "lotsa", without=("ett",), domains={"sea": "nature"})
    assert data.about["clients"] == ["air", "sea"]
    assert data.about["domains"] == {"air": "unknown", "sea": "nature"}
    sea = data.table[data.table["client"] == "sea"]
    assert [each.tolist() for each in sea["values"]] == [[1, 2, 3], [4, 5, 7]]
    assert sea[["seconds", "season"]].iloc[0].tolist() == [3600, 24]
    air = data.table[data.table["client"] == "air"]
    np.testing.assert_array_equal(air["values"].iloc[0], [1, np.nan, 3])
    assert air[["seconds", "season"]].iloc[0].tolist() == [7 * 86400, 52]
    assert data.about["exclusions"] == {"air": {"constant": 1}}


def test_an_utsd_folder_names_domain_and_dataset_in_its_items(tmp_path: Path) -> None:
    items = ["Health_Pig_0", "Health_Pig_1", "Nature_Sea_Level_0_0"]
    write(tmp_path / "train.arrow", {"item_id": items, "target": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    data = build(tmp_path, "utsd")
    assert data.about["domains"] == {"Pig": "health", "Sea_Level": "nature"}
    assert data.about["counts"]["Pig"]["series"] == 2
    assert np.isnan(data.table["seconds"]).all()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"item_id": ["a"]}, "expected columns item_id and target, found no target"),
        ({"item_id": ["plain"], "target": [[1.0]]}, "item_id: expected domain_dataset_number, found 'plain'"),
        ({"item_id": ["a_b_0"], "target": [["x"]]}, "target: expected lists of numbers"),
    ],
)
def test_a_folder_of_another_layout_is_one_line(rows: dict, said: str, tmp_path: Path) -> None:
    write(tmp_path / "data.arrow", rows)
    with pytest.raises(InputError, match=said):
        build(tmp_path, "utsd")


def test_a_folder_without_arrow_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected arrow files, found none"):
        build(tmp_path, "lotsa")
    (tmp_path / "sea.arrow").write_bytes(b"no arrow")
    with pytest.raises(InputError, match="expected an arrow file"):
        build(tmp_path, "lotsa")
