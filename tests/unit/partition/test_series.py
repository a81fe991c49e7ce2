"""Windows of series: where they lie, what they scale by, who gets them, and what is left out for which reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.series.table import SCHEMA, SeriesSet, describe
from fedloom.errors import InputError
from fedloom.partition.folder import SeriesPartition, write_partition
from fedloom.partition.series import (
    SeriesPartitionSettings,
    make_series_partition,
)

SMALL = SeriesPartitionSettings(length=16, patch=4)


def series(*values: np.ndarray, clients: str = "", domains: str = "", bounds: tuple[int, int] = (-1, -1)) -> SeriesSet:
    rows = [
        {"client": clients[i : i + 1] or "a", "domain": domains[i : i + 1] or "d", "values": each.astype(np.float32)}
        for i, each in enumerate(values)
    ]
    table = pd.DataFrame(rows).assign(id=[str(i) for i in range(len(rows))], channel="v", seconds=1.0, start=pd.NaT)
    table = table.assign(season=0, validation=bounds[0], test=bounds[1], label=None)
    table["tasks"] = [[]] * len(table)
    table = table[SCHEMA.names]
    about = {"dataset": "x", "part": None, "exclusions": {}, "cleaned": {}, "seen": [], "bias": {}}
    return SeriesSet(table, about | describe(table))


def waves(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def starts(made: SeriesPartition, part: str, row: int = 0) -> list[int]:
    chosen = made.windows[(made.windows["part"] == part) & (made.windows["series"] == row)]
    return chosen["start"].tolist()


def test_windows_end_where_their_part_ends_and_go_back_by_a_stride() -> None:
    made = make_series_partition(series(waves(200)), SMALL)
    assert made.scaling[["validation", "test"]].iloc[0].tolist() == [140, 160]
    assert starts(made, "train") == list(range(0, 125, 4))
    assert starts(made, "validation") == [144]
    assert starts(made, "test") == [168, 184]
    assert made.clients.loc["a"].tolist() == [32, 1, 2]


def test_a_part_shorter_than_a_window_has_one_that_begins_before_it() -> None:
    made = make_series_partition(series(waves(60)), SMALL)
    assert starts(made, "validation") == [48 - 16]
    assert starts(made, "test") == [60 - 16]
    shortest = make_series_partition(series(waves(10)), SMALL)
    assert starts(shortest, "train") == [-9]
    assert starts(shortest, "validation") == []
    assert shortest.about["counts"] == {"windows_with_fewer_than_two_tokens": 2}


def test_bounds_of_a_series_come_before_the_shares() -> None:
    made = make_series_partition(series(waves(100), bounds=(50, 50)), SMALL)
    assert starts(made, "validation") == []
    assert starts(made, "test") == [52, 68, 84]


def test_the_scale_is_that_of_the_training_part() -> None:
    values = waves(100)
    values[5:9] = np.nan
    made = make_series_partition(series(values), SMALL)
    expected = pd.Series(values.astype(np.float32)[:70].astype(float))
    assert made.scaling["mean"].iloc[0] == pytest.approx(expected.mean())
    assert made.scaling["sd"].iloc[0] == pytest.approx(expected.std(ddof=0))


def test_later_values_move_no_scale_and_no_earlier_window() -> None:
    values = waves(200)
    values[100:110] = np.nan
    changed = values.copy()
    changed[160:] = 1e6
    first, second = (make_series_partition(series(each), SMALL) for each in (values, changed))
    pd.testing.assert_frame_equal(first.scaling, second.scaling)
    for part in ("train", "validation"):
        assert starts(first, part) == starts(second, part)


def test_series_that_do_not_move_in_training_and_windows_of_one_value_are_left_out_and_counted() -> None:
    still = np.r_[np.ones(140), waves(60)]
    rounding = np.r_[1e6 + 1e-2 * waves(140), waves(60)]
    empty = np.r_[np.full(140, np.nan), waves(60)]
    stuck = waves(200)
    stuck[40:80] = 3.0
    made = make_series_partition(series(still, empty, stuck, rounding), SMALL)
    assert set(made.windows["series"]) == {2}
    assert not any(40 <= start <= 64 for start in starts(made, "train", 2))
    assert made.about["counts"] == {"series_that_do_not_move_in_training": 3, "windows_of_one_value": 7}
    assert made.scaling["mean"].isna().tolist() == [True, True, False, True]


def test_long_gaps_leave_out_windows_that_see_too_little_and_short_ones_are_filled() -> None:
    values = waves(200)
    values[20:60] = np.nan
    values[100:103] = np.nan
    made = make_series_partition(series(values), SMALL)
    assert made.about["counts"] == {"gap_points_interpolated": 3, "windows_with_fewer_than_two_tokens": 9}
    assert [start for start in starts(made, "train") if 12 < start < 52] == []


def test_the_cap_keeps_the_same_windows_whatever_else_there_is() -> None:
    asked = SeriesPartitionSettings(length=16, patch=4, cap=10, held_cap=1)
    alone = make_series_partition(series(waves(400)), asked)
    beside = make_series_partition(series(waves(400), waves(400, 1), clients="ab"), asked)
    assert alone.clients.loc["a"].tolist() == [10, 1, 1]
    assert starts(alone, "train") == starts(beside, "train")
    assert alone.about["counts"] == {"windows_beyond_the_cap": 67 - 10 + 1 + 4}


def test_domains_pool_their_clients() -> None:
    data = series(waves(100), waves(100, 1), waves(100, 2), clients="abc", domains="xyx")
    made = make_series_partition(data, SeriesPartitionSettings(length=16, patch=4, deal="domain"))
    assert list(made.clients.index) == ["x", "y"]
    assert made.clients["train"].tolist() == [28, 14]
    assert made.windows.groupby("client")["series"].unique().map(sorted).tolist() == [[0, 2], [1]]


@pytest.mark.parametrize("imbalance", [0.1, 0.3, 0.7])
def test_imbalanced_clients_fall_geometrically_and_keep_sources_together(imbalance: float) -> None:
    data = series(waves(4000), waves(4000, 1), clients="ab")
    asked = SeriesPartitionSettings(length=16, patch=4, deal="imbalanced", clients=8, imbalance=imbalance)
    made = make_series_partition(data, asked)
    sizes = made.clients["train"].to_numpy()
    assert sizes.sum() == 2 * 697
    assert sizes.min() / sizes.max() == pytest.approx(1 - imbalance, abs=0.02)
    np.testing.assert_allclose(sizes[1:] / sizes[:-1], (1 - imbalance) ** (1 / 7), atol=0.03)
    sources = made.windows.groupby("client")["series"].nunique()
    assert (sources > 1).sum() <= 3  # one run a part may cross from one source to the next


def test_a_mixed_federation_deals_every_source_to_everyone() -> None:
    data = series(waves(4000), waves(4000, 1), clients="ab")
    made = make_series_partition(data, SeriesPartitionSettings(length=16, patch=4, deal="mixed", clients=4))
    assert made.clients["train"].max() - made.clients["train"].min() <= 1
    training = made.windows[made.windows["part"] == "train"]
    share = training.groupby("client")["series"].mean()
    assert share.between(0.4, 0.6).all()


def test_no_window_to_train_on_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x: partition: expected a training window, found series of at most 5 points"):
        make_series_partition(series(waves(5)), SMALL)
    write_partition(make_series_partition(series(waves(50)), SMALL), tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {
        *(f"{name}.parquet" for name in ("clients", "scaling", "windows")),
        "partition.json",
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"length": 18, "patch": 4}, "length: expected a multiple of 4 and of patch 4"),
        ({"length": 4, "patch": 4}, "length: expected a multiple of 4 and of patch 4"),
        ({"split": (0.7, 0.3, 0.2)}, "split: expected three positive shares"),
        ({"cap": 0}, "cap: expected at least 1"),
        ({"imbalance": 1.0}, "imbalance: expected a share"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SeriesPartitionSettings(**settings)
