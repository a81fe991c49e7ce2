"""Readers of real layouts on small files: what is kept, in which order, and that no context gives the action away."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.raw import RawFolder
from fedloom.data.trajectories import bandit, diabetes, statics
from fedloom.data.trajectories.owners import owner_parts
from fedloom.data.trajectories.sequences import Sequences
from fedloom.data.trajectories.table import write_trajectories
from fedloom.errors import InputError

Put = Callable[[Path, str, str, bytes | Path], None]
SKILLS = "qid\tskillid\tskillname\n" + "".join(f"{item}\t{(item + 1) // 2}\tname\n" for item in range(1, 9))


def learners(records: list[list[tuple[int, int]]]) -> str:
    lines = []
    for record in records:
        lines.append(str(len(record)))
        lines += [",".join(str(step[place]) for step in record) + "," * bool(record) for place in (0, 1)]
    return "\n".join(lines) + "\n"


def draw_learners(count: int, length: int = 12) -> list[list[tuple[int, int]]]:
    draw = np.random.default_rng(0)
    items = draw.integers(1, 9, (count, length))
    right = draw.uniform(size=items.shape) < 1 - items / 10
    return [list(zip(row, answers.astype(int), strict=True)) for row, answers in zip(items, right, strict=True)]


def read_statics(put: Put, folder: Path, text: str, **options: object) -> Sequences:
    put(folder, "answers", "csv", text.encode())
    put(folder, "skills", "csv", SKILLS.encode())
    return statics.statics(RawFolder(folder), **options)  # type: ignore[arg-type]


def test_learners_become_chunks_with_the_record_before_them(put: Put, tmp_path: Path) -> None:
    records = [*draw_learners(20), []]
    found = read_statics(put, tmp_path, learners(records), longest=5, least=3, variant="item")
    assert found.about["exclusions"] == {"owners_without_steps": 1, "chunks_below_3_steps": 20}
    assert found.steps.length.tolist() == [5] * 40
    assert found.steps.t[:10].tolist() == [item - 1 for item, _ in records[0][:10]]
    assert found.steps.y[:10].tolist() == [right for _, right in records[0][:10]]
    assert found.steps.x[0].tolist() == [0, 0, 0, 0, 0, 1]
    before = np.array(records[0][:5])
    expected = [math.log(5), 1 / 6, before[:, 1].mean(), before[:, 1].std(), len(set(before[:, 0])) / 5, 0]
    np.testing.assert_allclose(found.steps.x[1], expected, rtol=1e-6)


def test_difficulty_comes_from_training_learners_alone(put: Put, tmp_path: Path) -> None:
    records = draw_learners(30)
    before = read_statics(put, tmp_path / "a", learners(records), bins=3)
    test = np.flatnonzero(owner_parts(before.owner) != "train")
    for learner in test:
        records[learner] = [(item, 1 - right) for item, right in records[learner]]
    after = read_statics(put, tmp_path / "b", learners(records), bins=3)
    np.testing.assert_array_equal(before.steps.t, after.steps.t)
    np.testing.assert_array_equal(before.steps.a, after.steps.a)
    assert before.about["actions"] == 3
    # Items get harder with their number, so the bin never falls with it.
    items = np.concatenate([[item for item, _ in record] for record in records])
    assert pd.Series(before.steps.t).groupby(items).first().is_monotonic_increasing


def test_the_concept_does_not_give_the_item_away(put: Put, tmp_path: Path) -> None:
    found = read_statics(put, tmp_path, learners(draw_learners(20)), variant="item")
    context = pd.Series(found.steps.a[:, 0])
    assert context.groupby(found.steps.t // 2).nunique().eq(1).all()
    assert (pd.Series(found.steps.t).groupby(context).nunique() == 2).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n1,2,\n1,0,\n1\n", "expected three lines a learner, found 4 lines"),
        ("2\n1,\n1,0,\n", "line 1: expected 2 items and as many answers, found 1 and 2"),
        ("2\n1,9,\n1,0,\n", "line 1: item: expected an id from 1 to 8, found 9"),
        ("2\n1,2,\n1,2,\n", "line 1: answer: expected an id from 0 to 1, found 2"),
        ("1\nx,\n1,\n", "line 2: expected whole numbers, found 'x'"),
    ],
)
def test_a_damaged_line_of_a_learner_is_named(text: str, message: str, put: Put, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_statics(put, tmp_path, text)


def test_an_unknown_variant_is_refused(put: Put, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="variant: expected item or difficulty, found 'skill'"):
        read_statics(put, tmp_path, learners(draw_learners(3)), variant="skill")


def stays(count: int = 40) -> pd.DataFrame:
    """Stays of patients, three each, in an order that is not that of their numbers."""
    draw = np.random.default_rng(1)
    rows = pd.DataFrame(index=range(3 * count))
    rows["encounter_id"] = draw.permutation(3 * count) + 100
    rows["patient_nbr"] = np.arange(3 * count) // 3
    rows["race"], rows["gender"], rows["age"] = "?", "Female", "[70-80)"
    rows["admission_type_id"], rows["admission_source_id"] = "1", "7"
    rows["discharge_disposition_id"] = draw.choice(["1", "6", "11"], len(rows))
    rows["payer_code"], rows["medical_specialty"] = "?", draw.choice(["?", "Surgery", "Cardiology"], len(rows))
    for name in diabetes.COUNTS:
        rows[name] = draw.integers(0, 9, len(rows))
    rows["diag_1"], rows["diag_2"] = draw.choice(["250.83", "428", "V57", "?"], len(rows)), "715"
    rows["A1Cresult"], rows["max_glu_serum"] = "None", ">300"
    for name in diabetes.DRUGS:
        rows[name] = draw.choice(diabetes.DOSES, len(rows), p=[0.7, 0.2, 0.05, 0.05])
    rows["readmitted"] = draw.choice(["<30", ">30", "NO"], len(rows))
    return rows


def read_diabetes(put: Put, folder: Path, table: pd.DataFrame, **options: object) -> Sequences:
    put(folder, "encounters", "csv", table.to_csv(index=False).encode())
    return diabetes.diabetes(RawFolder(folder), **options)  # type: ignore[arg-type]


def test_stays_are_ordered_by_their_number_whatever_the_order_of_rows(put: Put, tmp_path: Path) -> None:
    table = stays()
    one = read_diabetes(put, tmp_path / "a", table, rare=2)
    other = read_diabetes(put, tmp_path / "b", table.sample(frac=1, random_state=0), rare=2)
    assert one.about == other.about
    for name in ("start", "x", "a", "t", "y"):
        np.testing.assert_array_equal(getattr(one.steps, name), getattr(other.steps, name))
    ordered = table.assign(owner=table["patient_nbr"].astype("str")).sort_values(["owner", "encounter_id"])
    np.testing.assert_array_equal(one.steps.y, ordered["readmitted"] == "<30")
    assert (one.steps.x.shape[1], one.steps.a.shape[1]) == (11, 74)


def test_the_official_archive_is_the_same_table(put: Put, tmp_path: Path) -> None:
    table = stays()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("diabetic_data.csv", table.to_csv(index=False))
        archive.writestr("IDS_mapping.csv", "admission_type_id,description\n")
    put(tmp_path / "zip", "encounters", "zip", packed.getvalue())
    one = diabetes.diabetes(RawFolder(tmp_path / "zip"), rare=2)
    other = read_diabetes(put, tmp_path / "csv", table, rare=2)
    np.testing.assert_array_equal(one.steps.a, other.steps.a)
    put(tmp_path / "bad", "encounters", "zip", b"PK\x03\x04")
    with pytest.raises(InputError, match="expected the archive of UCI 296, found"):
        diabetes.diabetes(RawFolder(tmp_path / "bad"))


def test_what_discharge_decides_is_known_at_the_next_stay_only(put: Put, tmp_path: Path) -> None:
    table = stays()
    strict, paper = (read_diabetes(put, tmp_path / v, table, rare=2, variant=v) for v in ("strict", "paper"))
    first = np.tile([True, False, False], 40)
    names = strict.about["a_names"]
    for name in diabetes.COUNTS:
        lagged, same = strict.steps.a[:, names.index(name)], paper.steps.a[:, names.index(name)]
        if name in diabetes.DISCHARGE_COUNTS:
            assert np.isnan(lagged[first]).all()
            np.testing.assert_array_equal(lagged[~first], np.roll(same, 1)[~first])
        else:
            np.testing.assert_array_equal(lagged, same)
    ordered = table.assign(owner=table["patient_nbr"].astype("str")).sort_values(["owner", "encounter_id"])
    home = (ordered["discharge_disposition_id"] == "1").to_numpy(float)
    column = strict.steps.a[:, names.index("disposition_before_home")]
    np.testing.assert_array_equal(column, np.where(first, 0, np.roll(home, 1)))
    touched = table.assign(discharge_disposition_id="7", num_medications=99, time_in_hospital=14, num_procedures=6)
    last = ~np.isin(np.arange(120) % 3, (0, 1))
    rows = ordered.index[last]
    table.loc[rows] = touched.loc[rows]
    after = read_diabetes(put, tmp_path / "c", table, rare=2)
    np.testing.assert_array_equal(after.steps.a, strict.steps.a)


def test_rare_actions_and_specialties_are_counted_in_training_alone(put: Put, tmp_path: Path) -> None:
    table = stays()
    before = read_diabetes(put, tmp_path / "a", table, rare=3)
    test = (owner_parts(table["patient_nbr"].astype("str")) != "train").nonzero()[0]
    table.loc[test, ["insulin", "medical_specialty"]] = ["Up", "Dentistry"]
    after = read_diabetes(put, tmp_path / "b", table, rare=3)
    for key in ("actions", "action_names", "a_names", "other_action"):
        assert before.about[key] == after.about[key]
    train = owner_parts(before.owner)[np.repeat(range(40), 3)] == "train"
    np.testing.assert_array_equal(before.steps.t[train], after.steps.t[train])
    counted = np.bincount(before.steps.t[train], minlength=before.about["actions"])
    assert (counted[: before.about["other_action"]] >= 3).all()
    assert before.about["action_names"][-1] == "other"


def test_duplicate_rows_and_unknown_gender_are_left_out_and_counted(put: Put, tmp_path: Path) -> None:
    table = stays()
    table.loc[[0, 1, 2], "gender"] = "Unknown/Invalid"
    found = read_diabetes(put, tmp_path, pd.concat([table, table[10:14]]), rare=2)
    assert found.about["exclusions"] == {"duplicate_rows": 4, "rows_of_unknown_gender": 3}
    assert len(found.steps.y) == 117


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("insulin", "Double", "row 5: insulin: expected one of No, Steady, Up, Down, found Double"),
        ("A1Cresult", "", "row 5: A1Cresult: expected one of None, Norm"),
        ("discharge_disposition_id", "99", "row 5: discharge_disposition_id: expected a code of the mapping, found 99"),
        ("time_in_hospital", "long", "column 'time_in_hospital', row 5: expected a number, found 'long'"),
        ("encounter_id", None, "row 5: encounter_id: expected each stay once or repeated exactly"),
        ("age", "70", r"row 5: age: expected a band as \[70-80\), found 70"),
    ],
)
def test_a_damaged_stay_is_named(column: str, value: str | None, message: str, put: Put, tmp_path: Path) -> None:
    table = stays().astype("str")
    table.loc[4, column] = table.loc[3, column] if value is None else value
    with pytest.raises(InputError, match=message):
        read_diabetes(put, tmp_path, table)


def impressions(count: int = 200, items: int = 12) -> pd.DataFrame:
    draw = np.random.default_rng(2)
    table = pd.DataFrame({"timestamp": pd.date_range("2019-11-24", periods=count, freq="97s", tz="UTC").astype("str")})
    table["item_id"] = draw.integers(0, items, count)
    table["position"] = draw.integers(1, 4, count)
    table["click"] = (draw.uniform(size=count) < 0.2).astype(int)
    table["propensity_score"] = 1 / items
    for number in range(4):
        table[f"user_feature_{number}"] = draw.choice(["aa", "bb", "cc"], count)
    for item in range(items):
        table[f"user-item_affinity_{item}"] = draw.integers(0, 2, count).astype(float)
    return table


def read_bandit(put: Put, folder: Path, table: pd.DataFrame) -> Sequences:
    put(folder, "impressions", "csv", table.to_csv().encode())
    return bandit.open_bandit(RawFolder(folder), items=12, longest=4)


def test_equal_user_features_are_one_user_in_order_of_time(put: Put, tmp_path: Path) -> None:
    table = impressions()
    found = read_bandit(put, tmp_path, table)
    users = table[bandit.USER].agg("/".join, axis=1)
    assert set(found.owner) == set(users)
    assert len(found.steps.y) == 200
    assert found.steps.length.max() == 4
    for user in users.unique():
        rows = np.flatnonzero(np.repeat(found.owner, found.steps.length) == user)
        np.testing.assert_array_equal(found.steps.t[rows], table["item_id"][users == user])
    gap = found.steps.a[:, bandit.A_NAMES.index("log_gap")]
    step = found.steps.a[:, bandit.A_NAMES.index("log_step")]
    assert (gap[step == 0] == 0).all()
    assert (gap[step > 0] >= math.log1p(97) - 1e-5).all()


def test_the_context_of_an_impression_holds_nothing_of_what_is_shown(put: Put, tmp_path: Path) -> None:
    table = impressions()
    before = read_bandit(put, tmp_path / "a", table)
    shown = ["item_id", "click", "propensity_score"]
    after = read_bandit(put, tmp_path / "b", table.assign(**{name: table[name][::-1].to_numpy() for name in shown}))
    np.testing.assert_array_equal(before.steps.a, after.steps.a)
    np.testing.assert_array_equal(before.steps.x, after.steps.x)


def test_user_levels_that_training_lacks_share_the_code_zero(put: Put, tmp_path: Path) -> None:
    table = impressions()
    table["user_feature_3"] = [f"only{number}" for number in range(200)]
    found = read_bandit(put, tmp_path, table)
    train = owner_parts(found.owner) == "train"
    assert (found.steps.x[~train, 3] == 0).all()
    assert sorted(found.steps.x[train, 3]) == list(range(1, train.sum() + 1))
    assert found.about["x_categories"]["user_feature_3"] == train.sum() + 1


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("item_id", 12, "row 5: item_id: expected an id from 0 to 11, found 12"),
        ("propensity_score", 0.0, "row 5: propensity_score: expected above 0 and at most 1, found 0.0"),
        ("propensity_score", 1.2, "row 5: propensity_score: expected above 0 and at most 1, found 1.2"),
        ("click", 2, "row 5: click: expected 0 or 1, found 2"),
        ("position", 4, "row 5: position: expected 1, 2 or 3, found 4"),
        ("timestamp", "2019-11-23 00:00:00+00:00", "row 5: timestamp: expected a time not before 2019-11-24"),
    ],
)
def test_a_damaged_impression_is_named(column: str, value: object, message: str, put: Put, tmp_path: Path) -> None:
    table = impressions()
    table.loc[4, column] = value
    with pytest.raises(InputError, match=message):
        read_bandit(put, tmp_path, table)


def test_a_repeated_impression_is_left_out_and_counted(put: Put, tmp_path: Path) -> None:
    table = impressions()
    found = read_bandit(put, tmp_path, table.loc[np.r_[0:100, 99, 100:200]].reset_index(drop=True))
    assert found.about["exclusions"] == {"duplicate_rows": 1}
    assert len(found.steps.y) == 200


def test_what_readers_make_keeps_the_schema(put: Put, tmp_path: Path) -> None:
    for name, made in {
        "statics": read_statics(put, tmp_path / "s", learners(draw_learners(20))),
        "diabetes": read_diabetes(put, tmp_path / "d", stays(), rare=2),
        "bandit": read_bandit(put, tmp_path / "b", impressions()),
    }.items():
        write_trajectories(made.named(name, None, "unit"), tmp_path / name)
