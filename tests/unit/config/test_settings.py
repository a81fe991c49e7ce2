"""The switches of config/config.yaml: what is read, and what a user reads who mistyped."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fedloom.config.settings import Settings, read_settings, seed_list
from fedloom.errors import InputError


def test_the_committed_file_says_what_the_defaults_are(repository: Path) -> None:
    committed = yaml.safe_load((repository / "config" / "config.yaml").read_text())
    assert read_settings(committed, {}) == Settings()


def test_a_mirror_in_the_environment_is_used_where_config_names_none() -> None:
    environment = {"FEDLOOM_MIRROR": "cache"}
    assert read_settings({"mirror": None}, environment).mirror == "cache"
    assert read_settings({"mirror": "mine"}, environment).mirror == "mine"


def test_one_study_may_be_written_without_brackets() -> None:
    assert read_settings({"studies": "atlas"}, {}).studies == ("atlas",)


def test_seeds_are_a_number_or_a_list() -> None:
    assert seed_list(3) == (0, 1, 2)
    assert seed_list((4, 7)) == (4, 7)


def test_a_list_of_seeds_from_the_command_line_is_text() -> None:
    assert read_settings({"seeds": ["4", "7"]}, {}).seeds == (4, 7)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"scal": "desk"}, "config: unknown key 'scal', expected one of device, mirror, scale, seeds, studies"),
        ({"scal": "desk"}, "(did you mean 'scale'?)"),
        ({"device": "cdua"}, "config: device: found 'cdua', expected one of auto, cpu, cuda (did you mean 'cuda'?)"),
        ({"seeds": 0}, "config: seeds: found 0, expected: how many (1 or more), or a list of different numbers from 0"),
        ({"studies": []}, "config: studies: found [], expected: "),
        ({"mirror": 3}, "config: mirror: found 3, expected: Input should be a valid string"),
    ],
)
def test_an_error_is_one_line_with_key_value_and_what_is_allowed(config: dict[str, object], line: str) -> None:
    with pytest.raises(InputError) as error:
        read_settings(config, {})
    assert line in str(error.value)
    assert "\n" not in str(error.value)
