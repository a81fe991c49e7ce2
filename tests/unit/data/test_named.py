"""Readers stay small, are found by name, and say which of their options a dataset's file may set."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from fedloom.data.named import Readers
from fedloom.data.panels.readers import READERS as PANELS
from fedloom.data.points.readers import READERS as POINTS
from fedloom.data.series.readers import READERS as SERIES
from fedloom.data.trajectories.build import READERS as TRAJECTORIES
from fedloom.errors import InputError

MOST_LINES = 39
FAMILIES: tuple[Readers[Any], ...] = (PANELS, POINTS, SERIES, TRAJECTORIES)
REGISTERED = [reader for family in FAMILIES for reader in family.by_name.values()]


def layout(raw: str, *, start: str, every: int = 5) -> tuple[str, str, int]:
    return raw, start, every


TOY = Readers("toy", layout)


@pytest.mark.parametrize("reader", REGISTERED, ids=lambda reader: f"{reader.__module__}.{reader.__name__}")
def test_a_new_layout_is_one_reader_of_less_than_forty_lines_that_says_what_it_reads(reader: Callable) -> None:
    assert len(inspect.getsource(reader).splitlines()) <= MOST_LINES
    assert reader.__doc__


def test_options_reach_the_reader_and_the_others_keep_their_defaults() -> None:
    assert TOY.read("layout", {"start": "2024"}, "raw") == ("raw", "2024", 5)
    assert TOY.read("layout", {"start": "2024", "every": 15}, "raw") == ("raw", "2024", 15)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("lay", {}, "toy: reader: expected one of layout, found 'lay'"),
        ("layout", {"start": "2024", "raw": "x"}, "options of reader layout: expected start, every, found 'raw'"),
        ("layout", {}, "options of reader layout: expected 'start', found none"),
    ],
)
def test_what_a_file_gets_wrong_is_named(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TOY.read(name, options, "raw")
