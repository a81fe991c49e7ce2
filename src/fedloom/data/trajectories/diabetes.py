"""Diabetes 130-US hospitals (UCI 296): hospital stays of patients; the action is what was done with four drugs.

One sequence is a patient's stays in the order of ``encounter_id`` (there are no dates), cut into chunks of 20. What is
decided at discharge belongs to the context of the next stay, not of the same one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.raw import Raw, RawFolder
from fedloom.data.tables import numbers, read_table
from fedloom.data.trajectories.owners import owner_parts
from fedloom.data.trajectories.sequences import Codes, Cut, Sequences, cut, one_hot, refuse_rows, without_duplicates
from fedloom.data.trajectories.table import Steps
from fedloom.errors import InputError

DRUGS = ["insulin", "metformin", "glipizide", "glyburide"]
DOSES = ("No", "Steady", "Up", "Down")
RACES = ("?", "AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other")
VISITS = ["number_outpatient", "number_emergency", "number_inpatient"]
COUNTS = ["time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses", *VISITS]
DISCHARGE_COUNTS = ["time_in_hospital", "num_procedures", "num_medications"]  # known only when a stay ends
ADMISSIONS = tuple(str(code) for code in range(1, 9))
A1C = ("None", "Norm", ">7", ">8")
GLUCOSE = ("None", "Norm", ">200", ">300")
SPECIALTIES = 12

# Codes of IDs_mapping.csv in groups that keep their meaning.
SOURCES: Mapping[str, tuple[int, ...]] = {
    "referral": (1, 2, 3),
    "emergency": (7,),
    "hospital": (4, 10, 22),
    "facility": (5, 6, 18, 19, 25, 26),
    "birth": (11, 12, 13, 14, 23, 24),
    "court": (8,),
    "unknown": (9, 15, 17, 20, 21),
}
DISPOSITIONS: Mapping[str, tuple[int, ...]] = {
    "home": (1,),
    "home_care": (6, 8),
    "hospital": (2, 5, 9, 10, 27, 28, 29, 30),
    "nursing": (3, 4, 15, 22, 23, 24),
    "against_advice": (7,),
    "outpatient": (12, 16, 17),
    "hospice_or_death": (11, 13, 14, 19, 20, 21),
    "unknown": (18, 25, 26),
}
# ICD-9 ranges, both ends included, and single codes (Strack et al. 2014, table 2).
DIAGNOSES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
    "other": (),
}


def diabetes(raw: RawFolder, *, variant: str = "strict", longest: int = 20, rare: int = 20) -> Sequences:
    """Read patients as sequences of at most ``longest`` stays; the outcome is readmission within 30 days.

    variant: ``strict`` takes the three counts that are known only at discharge from the stay before (one of them counts
    the drugs of the action itself); ``paper`` takes them from the same stay. Actions with fewer than ``rare`` training
    rows become one action "other", the last id.
    """
    if variant not in ("strict", "paper"):
        raise InputError(f"trajectories: options: variant: expected strict or paper, found {variant!r}")
    file = raw.open("encounters")
    table, exclusions = _clean(_read(file), file)
    parts = cut(table["patient_nbr"].to_numpy(np.str_), table["encounter_id"].to_numpy(np.int64), longest)
    table = table.iloc[parts.order].reset_index(drop=True)
    owner = table["patient_nbr"].to_numpy(np.str_)
    train = owner_parts(owner) == "train"
    drugs = table[DRUGS[0]].str.cat(table[DRUGS[1:]], sep="/")
    action, codes = _actions(drugs, train, rare)
    names, kinds, context = _context(table, parts, train, variant)
    steps = Steps(
        start=parts.start,
        x=_patient(table, parts),
        a=context,
        t=action,
        y=(table["readmitted"] == "<30").to_numpy(np.float32),
        propensity=np.full(len(table), np.nan),
    )
    about = {
        "actions": codes.count,
        "other_action": codes.count - 1,
        "action_names": [*codes.levels, "other"],
        "actions_before_grouping": int(drugs.nunique()),
        "x_names": ["age", "female", *(f"race_{race}" for race in RACES), *(f"log_{name}" for name in VISITS)],
        "x_kinds": ["continuous"] + ["binary"] * 7 + ["continuous"] * 3,
        "a_names": names,
        "a_kinds": kinds,
        "exclusions": exclusions,
    }
    return Sequences(owner[parts.first], steps, about, table["age"].iloc[parts.first].to_numpy(np.str_))


def _read(file: Raw) -> pd.DataFrame:
    """The table as text: "None" is a level of two columns, and an empty mark means nothing here."""
    options = {"dtype": "str", "keep_default_na": False}
    if file.form != "zip":
        return read_table(file, **options)
    try:
        with zipfile.ZipFile(file.path) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith("diabetic_data.csv")]
            return pd.read_csv(archive.open(member), dtype="str", keep_default_na=False)
    except (ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{file.path}: expected the archive of UCI 296, found {error}") from error


def _clean(table: pd.DataFrame, file: Raw) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that count, checked, and how many were left out why."""
    needed = ["encounter_id", "patient_nbr", "race", "gender", "age", "readmitted", *DRUGS, *COUNTS]
    needed += ["admission_type_id", "admission_source_id", "discharge_disposition_id", "payer_code"]
    needed += ["medical_specialty", "diag_1", "diag_2", "A1Cresult", "max_glu_serum"]
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(f"{file.path}: expected a column {missing[0]!r}, found none")
    levels_of: dict[str, tuple[str, ...]] = dict.fromkeys(DRUGS, DOSES)
    levels_of |= {"A1Cresult": A1C, "max_glu_serum": GLUCOSE, "race": RACES, "readmitted": ("<30", ">30", "NO")}
    for name, levels in levels_of.items():
        refuse_rows(~table[name].isin(levels), table[name], file.path, name, "one of " + ", ".join(levels))
    refuse_rows(~table["age"].str.match(r"^\[\d+-\d+\)$"), table["age"], file.path, "age", "a band as [70-80)")
    coded: dict[str, Mapping[str, tuple[int, ...]]] = {
        "admission_source_id": SOURCES,
        "discharge_disposition_id": DISPOSITIONS,
    }
    for name, groups in coded.items():
        known = [str(code) for codes in groups.values() for code in codes]
        refuse_rows(~table[name].isin(known), table[name], file.path, name, "a code of the mapping")
    refuse_rows(
        ~table["admission_type_id"].isin(ADMISSIONS),
        table["admission_type_id"],
        file.path,
        "admission_type_id",
        "1 to 8",
    )
    count_columns = numbers(table[[*COUNTS, "encounter_id"]], file.path)
    table = table.assign(**{name: count_columns[name] for name in count_columns})
    table, again = without_duplicates(table)
    twice = table["encounter_id"].duplicated()
    refuse_rows(twice, table["encounter_id"], file.path, "encounter_id", "each stay once or repeated exactly")
    unknown = ~table["gender"].isin(("Female", "Male"))
    table = table[~unknown].reset_index(drop=True)
    return table, {"duplicate_rows": again, "rows_of_unknown_gender": int(unknown.sum())}


def _actions(drugs: pd.Series, train: NDArray[np.bool_], rare: int) -> tuple[NDArray[np.int32], Codes]:
    """What was done at each stay, and the codes of what training rows have at least ``rare`` times."""
    seen = drugs[train].value_counts()
    codes = Codes.of(drugs[train & drugs.isin(seen.index[seen >= rare]).to_numpy()])
    # Code 0 is "any other": it goes to the end, so that it stands beside the padding id and not in front of real ones.
    return ((codes(drugs) - 1) % codes.count).astype(np.int32), codes


def _patient(table: pd.DataFrame, parts: Cut) -> NDArray[np.float32]:
    """What is known of a patient at the first stay, repeated for every chunk, [n, 11]."""
    begun = parts.first[parts.chunk == 0]
    first = table.iloc[np.repeat(begun, np.diff(np.r_[np.flatnonzero(parts.chunk == 0), len(parts.chunk)]))]
    band = first["age"].str.extract(r"(\d+)-(\d+)").astype(float).mean(axis=1)
    columns = [
        band.to_numpy()[:, None],
        (first["gender"] == "Female").to_numpy()[:, None],
        one_hot(first["race"], RACES),
        np.log1p(first[VISITS].to_numpy(np.float64)),
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _context(
    table: pd.DataFrame, parts: Cut, train: NDArray[np.bool_], variant: str
) -> tuple[list[str], list[str], NDArray[np.float32]]:
    """Names, kinds and values of what is known when the drugs are chosen, [stays, 74]."""
    first = parts.position == 0
    counts = table[COUNTS].astype(float)
    if variant == "strict":
        for name in DISCHARGE_COUNTS:
            counts[name] = counts[name].shift().mask(first)
    before = _grouped(table["discharge_disposition_id"], DISPOSITIONS).shift().mask(first, "")
    specialty = table["medical_specialty"]
    known = specialty[train & (specialty != "?").to_numpy()].value_counts()
    # Equal counts are ordered by name: the order of rows must not decide which one is kept.
    common = sorted(known.index, key=lambda name: (-known[name], name))[:SPECIALTIES]
    specialty = specialty.where(specialty.isin([*common, "?"]), "other")
    blocks = {
        "admission": (table["admission_type_id"], ADMISSIONS),
        "source": (_grouped(table["admission_source_id"], SOURCES), tuple(SOURCES)),
        "disposition_before": (before, tuple(DISPOSITIONS)),
        "specialty": (specialty, (*common, *[f"-{i}" for i in range(SPECIALTIES - len(common))], "other", "?")),
        "diag_1": (_icd9(table["diag_1"]), tuple(DIAGNOSES)),
        "diag_2": (_icd9(table["diag_2"]), tuple(DIAGNOSES)),
        "a1c": (table["A1Cresult"], A1C),
        "glucose": (table["max_glu_serum"], GLUCOSE),
    }
    names, columns = list(COUNTS), [counts.to_numpy()]
    for block, (values, levels) in blocks.items():
        names += [f"{block}_{level}" for level in levels]
        columns.append(one_hot(values, levels))
    columns += [(table["payer_code"] == "?").to_numpy()[:, None], first[:, None], parts.position[:, None] / 20]
    names += ["payer_missing", "first_stay", "stay_twentieth"]
    kinds = ["continuous"] * len(COUNTS) + ["binary"] * (len(names) - len(COUNTS) - 1) + ["continuous"]
    return names, kinds, np.concatenate(columns, axis=1).astype(np.float32)


def _grouped(codes: pd.Series, groups: Mapping[str, tuple[int, ...]]) -> pd.Series:
    return codes.map({str(code): group for group, members in groups.items() for code in members})


def _icd9(codes: pd.Series) -> pd.Series:
    """The group of each ICD-9 code; codes with a letter, and unknown ones, are "other"."""
    whole = pd.to_numeric(codes, errors="coerce").fillna(-1).astype(int)
    group = pd.Series("other", index=codes.index)
    for name, ranges in DIAGNOSES.items():
        for low, high in ranges:
            group[whole.between(low, high)] = name
    return group
