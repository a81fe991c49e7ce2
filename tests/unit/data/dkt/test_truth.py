"""The truth artifact says what the world does, and refuses what it cannot be."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.trajectories.dkt.counterfactual import POLICIES, Prefix, plan, potentials, rollout
from fedloom.data.trajectories.dkt.truth import build_truth
from fedloom.data.trajectories.owners import owner_parts
from fedloom.data.trajectories.truth import Truth, TruthSettings, read_truth, write_truth
from fedloom.errors import InputError

from .conftest import Case

SETTINGS = TruthSettings(draws=48, units=40, floor_draws=8)


@pytest.fixture(scope="module")
def truth(small: Case) -> Truth:
    return build_truth(small.settings, SETTINGS, small.data)


def test_it_passes_through_its_files_unchanged(truth: Truth, tmp_path: Path) -> None:
    write_truth(truth, tmp_path)
    read = read_truth(tmp_path)
    for field in dataclasses.fields(Truth):
        np.testing.assert_array_equal(getattr(read, field.name), getattr(truth, field.name))


def test_the_same_settings_give_the_same_truth(small: Case, truth: Truth) -> None:
    again = build_truth(small.settings, SETTINGS, small.data)
    np.testing.assert_array_equal(again.values, truth.values)


def test_outcomes_are_logged_before_the_window_and_rolled_out_from_it_on(small: Case, truth: Truth) -> None:
    prefix = Prefix(small.log.t[:, :25], small.log.y[:, :25])
    for row, policy in enumerate(POLICIES):
        np.testing.assert_array_equal(truth.outcomes[row, :, :25], small.log.y[:, :25])
        rolled = rollout(small.world, small.units, plan(small.world, policy, 25), prefix=prefix)
        np.testing.assert_array_equal(truth.outcomes[row, :, 25:], rolled.y)


def test_values_belong_to_test_sequences_alone_and_to_as_many_as_asked(small: Case, truth: Truth) -> None:
    parts = owner_parts(small.data.table["owner"])
    assert truth.valued.sum() == 40
    assert (parts[truth.valued] == "test").all()


def test_fewer_valued_units_are_some_of_more(small: Case, truth: Truth) -> None:
    few = build_truth(small.settings, dataclasses.replace(SETTINGS, units=10), small.data)
    assert few.valued.sum() == 10
    np.testing.assert_array_equal(few.values[:, few.valued], truth.values[:, few.valued])


def test_the_easier_item_is_answered_better_and_half_windows_lie_between(truth: Truth) -> None:
    never, always, early, late = (truth.value(policy)[truth.valued].mean() for policy in POLICIES)
    assert always < min(early, late) < max(early, late) < never
    assert (truth.potentials[..., 1] - truth.potentials[..., 0]).mean() < -0.1


def test_one_step_windows_are_the_step_potentials(small: Case, truth: Truth) -> None:
    pair = truth.potentials[truth.valued, 25].astype(np.float64)
    first = truth.horizon_values[0][:, truth.valued]
    for row, column in ((0, 0), (1, 1), (2, 1), (3, 0)):
        np.testing.assert_allclose(first[row], pair[:, column], rtol=1e-6)


def test_the_standard_error_is_that_of_the_draws(small: Case, truth: Truth) -> None:
    """Two halves of the noise differ by as much as their errors say."""
    other = truth.floor[:, :, truth.valued].astype(np.float64).mean(axis=0)
    spread = truth.values_se[:, truth.valued] * np.sqrt(48) * np.sqrt(1 / 48 + 1 / 8)
    scores = (other - truth.values[:, truth.valued]) / spread
    assert scores.std() == pytest.approx(1, abs=0.25)
    pooled = np.array(truth.about["monte_carlo_se"]) * np.sqrt(1 + 48 / 8)
    gap = other.mean(axis=1) - truth.values[:, truth.valued].mean(axis=1)
    assert (np.abs(gap) < 4 * pooled).all()


def test_anchor_propensities_are_those_of_the_log_where_an_anchor_was_given(small: Case, truth: Truth) -> None:
    for column, item in enumerate((small.world.off, small.world.on)):
        given = small.log.t == item
        np.testing.assert_array_equal(truth.anchor_propensity[given, column], small.padded.propensity[given])


def test_potentials_are_kept_in_the_order_off_on(small: Case, truth: Truth) -> None:
    expected = potentials(small.world, small.units, small.log, np.array([small.world.off, small.world.on]))
    np.testing.assert_array_equal(truth.potentials, expected)
    assert truth.about["anchors"] == small.data.about["anchors"]


def test_a_log_of_another_world_is_refused(small: Case) -> None:
    with pytest.raises(InputError, match="expected the answers of the settings' world, found others"):
        build_truth(dataclasses.replace(small.settings, seed=5), SETTINGS, small.data)


def test_a_window_beyond_the_log_is_refused(small: Case) -> None:
    late = dataclasses.replace(SETTINGS, window_start=48)
    with pytest.raises(InputError, match="window_start: expected at least 5 steps from it to the end, found 3 in 50"):
        build_truth(small.settings, late, small.data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.zeros((3, 300))}, r"values: expected shape \(4, 300\), found \(3, 300\)"),
        ({"outcomes": np.full((4, 300, 50), 2, np.uint8)}, "outcomes: expected 0 or 1, found 2"),
        ({"potentials": np.full((300, 50, 2), 1.5, np.float32)}, "potentials: expected probabilities"),
        ({"effect_se": np.zeros(300, np.float32)}, "effect_se: expected float64, found float32"),
        ({"about": {}}, "about: expected keys"),
    ],
)
def test_a_broken_truth_is_refused_before_it_is_written(
    truth: Truth, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        write_truth(dataclasses.replace(truth, **change), tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_torn_file_is_named(truth: Truth, tmp_path: Path) -> None:
    write_truth(truth, tmp_path)
    path = tmp_path / "truth.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"truth\.safetensors: expected safetensors"):
        read_truth(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="expected a file of a truth, found no such file"):
        read_truth(tmp_path)


@pytest.mark.parametrize("field", ["draws", "units", "window_start", "floor_draws"])
def test_a_setting_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"truth: {field}: expected at least [12], found 0"):
        TruthSettings(**{field: 0})
