"""The log is a pure function of settings and oracle, and its policy is the one that the propensities tell of."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.trajectories.dkt.log import generate, logged
from fedloom.data.trajectories.dkt.noise import normal, uniform
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.world import World, mean_so_far
from fedloom.data.trajectories.table import read_trajectories, write_trajectories
from fedloom.errors import InputError

from .conftest import Case


def fingerprint(table: pd.DataFrame) -> str:
    found = hashlib.sha256()
    for name in ("x", "a", "t", "y", "propensity"):
        found.update(np.concatenate(list(table[name])).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("batch", [7, 64, 129])
def test_the_batch_changes_no_bit(small: Case, batch: int) -> None:
    assert fingerprint(generate(small.settings, batch=batch).table) == fingerprint(small.data.table)


def test_one_student_at_a_time_gives_the_same_bits(small: Case) -> None:
    few = generate(replace(small.settings, sequences=20), batch=1)
    assert fingerprint(few.table) == fingerprint(small.data.table.iloc[:20])


def test_a_student_does_not_depend_on_how_many_others_there_are(small: Case) -> None:
    few = generate(replace(small.settings, sequences=23))
    pd.testing.assert_frame_equal(few.table, small.data.table.iloc[:23])


def test_a_shorter_log_is_the_beginning_of_a_longer_one(small: Case) -> None:
    _, short = logged(generate(replace(small.settings, sequences=23, length=11)))
    np.testing.assert_array_equal(short.t, small.log.t[:23, :11])
    np.testing.assert_array_equal(short.y, small.log.y[:23, :11])


def test_another_seed_gives_another_log(small: Case) -> None:
    other = generate(replace(small.settings, seed=1))
    assert not np.array_equal(logged(other)[1].t, small.log.t)


def test_the_log_passes_through_its_file_unchanged(small: Case, tmp_path: object) -> None:
    folder = tmp_path / "trajectories"  # type: ignore[operator]
    write_trajectories(small.data, folder)
    assert fingerprint(read_trajectories(folder).table) == fingerprint(small.data.table)


def test_covariates_have_mean_0_and_variance_1(confounded: Case) -> None:
    x = confounded.padded.x
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=0.05)


def test_the_context_is_the_beta_mean_of_the_answers_before(small: Case) -> None:
    y, a = small.padded.y, small.padded.a[..., 0]
    for step in (0, 1, 20, 49):
        np.testing.assert_allclose(a[:, step], (1 + y[:, :step].sum(axis=1)) / (2 + step), rtol=1e-6)


@given(st.integers(0, 5), st.floats(0, 4), st.floats(0.02, 0.98))
@settings(max_examples=15)
def test_the_policy_sums_to_one_and_leaves_no_item_out(seed: int, confounding: float, context: float) -> None:
    world = World(DktSynth(seed=seed, confounding=confounding, sites=3))
    students = world.students(np.arange(5))
    policy = world.policy(students, np.full(5, context))
    np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=1e-12)
    assert (policy >= 0.2 / 50 * (1 - 1e-12)).all()
    for item in (0, world.off, world.on):
        told = world.propensity(students, np.full(5, context), np.full(5, item))
        np.testing.assert_allclose(told, policy[:, item], rtol=1e-12)


def test_the_logged_propensity_is_the_policys_probability_of_the_logged_item(small: Case) -> None:
    students, right = small.world.students(small.units), np.cumsum(small.log.y, axis=1) - small.log.y
    for step in (0, 7, 49):
        policy = small.world.policy(students, mean_so_far(right[:, step], step))
        told = policy[np.arange(len(policy)), small.log.t[:, step]]
        np.testing.assert_allclose(small.padded.propensity[:, step], told, rtol=1e-12)


def test_items_are_chosen_as_often_as_their_propensities_say() -> None:
    world = World(DktSynth())
    students = world.students(np.array([4])).take(np.zeros(40_000, dtype=np.int64))
    context = np.full(40_000, 0.8)
    chosen = world.choose(students, context, (np.arange(40_000) + 0.5) / 40_000)
    share = np.bincount(chosen, minlength=50) / 40_000
    np.testing.assert_allclose(share, world.policy(students, context)[0], atol=1 / 20_000)


def test_inverse_weights_have_mean_one_for_each_anchor(confounded: Case) -> None:
    padded, world = confounded.padded, confounded.world
    for item in (world.off, world.on):
        weight = ((padded.t == item) / padded.propensity).mean(axis=1)
        assert weight.mean() == pytest.approx(1, abs=4 * weight.std() / np.sqrt(len(weight)))


def test_draws_are_uniform_and_independent_of_their_company() -> None:
    few, many = uniform(3, "x", [5], 10), uniform(3, "x", range(8), 400)
    np.testing.assert_array_equal(few[0], many[5, :10])
    assert ((many > 0) & (many < 1)).all()
    assert many.mean() == pytest.approx(0.5, abs=0.02)
    assert abs(np.corrcoef(many)[0, 1:]).max() < 0.2
    assert not np.array_equal(many, uniform(3, "y", range(8), 400))
    assert normal(3, "x", range(8), 400).std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("field", "value"), [("sequences", 0), ("length", 0), ("confounding", -1), ("seed", -1), ("sites", 0)]
)
def test_a_setting_out_of_its_range_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"generate: {field}: expected a number from .* found {value}"):
        DktSynth(**{field: value})  # type: ignore[arg-type]


def test_this_is_the_world_that_numbers_are_published_of() -> None:
    """The first learners of seed 0, on every machine: whoever changes what this hash says changes every result."""
    _, log = logged(generate(DktSynth(sequences=20)))
    found = hashlib.sha256(np.stack([log.t, log.y]).astype(np.uint8).tobytes()).hexdigest()
    assert found == "fe46b360cf873f1b51ebe32698360de266640e2ca06b32f6a33d199ce1916b89"
