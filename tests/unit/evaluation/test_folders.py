"""What an evaluation is told of the datasets beside the one it judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.errors import InputError
from fedloom.evaluation.folders import Folders, beside


def test_a_dataset_beside_is_told_by_role_and_data_folder_and_its_partition_lies_next_to_it() -> None:
    told = beside("sampler=results/data/other/trajectories")
    assert told == ("sampler", Path("results/data/other/trajectories"))
    folders = Folders(Path("run"), Path("data"), Path("partition"), beside=dict([told]))
    assert folders.beside_partition("sampler") == Path("results/data/other/partition")


@pytest.mark.parametrize("text", ["sampler", "=folder", "sampler="])
def test_a_role_without_a_folder_is_one_clear_line(text: str) -> None:
    with pytest.raises(InputError, match="--beside: expected role=folder, found"):
        beside(text)
