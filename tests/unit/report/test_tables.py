"""Tables say what the runs say: means, marks, published values, what diverged, and which part of a dataset it was."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedloom.config.names import read_names
from fedloom.errors import InputError
from fedloom.report.layout import Cell, Table, escape_latex, latex, markdown, title, write_table
from fedloom.report.numbers import headline
from fedloom.report.references import read_references

from .conftest import CONFIG, Workshop, drawn


def cells(text: str, method: str) -> list[str]:
    """Return the cells of a method's row in a Markdown table, without group and label."""
    (line,) = [line for line in text.splitlines() if f"| {method} |" in line]
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


def headlines(frame: pd.DataFrame, metric: str = "mae") -> pd.DataFrame:
    """Return the printed numbers of a tidy table by method and variant."""
    return frame[headline(frame) & (frame["metric"] == metric)].set_index(["method", "variant"])


def test_a_cell_is_mean_and_deviation_over_seeds_with_the_published_value_beside_it(
    workshop: Workshop, references: Path
) -> None:
    for seed, error in enumerate([3.0, 4.0]):
        workshop.run("atlas", error, seed=seed)
    table = drawn(workshop.show("table1", references))
    assert cells(markdown(table, "table1"), "Atlas") == ["3.50 ± 0.71", "3.30", "3.50 ± 0.71", "no"]
    row = headlines(table.tidy).loc[("atlas", "base")]
    assert (row["seeds"], row["published"]) == (2, 3.30)
    assert row["ours_mean"] == pytest.approx(3.5, abs=0.01)


def test_one_seed_has_no_deviation_and_an_unpublished_value_is_a_dash(workshop: Workshop, references: Path) -> None:
    workshop.run("atlas", 3.0)
    workshop.run("fedper", 4.0)
    text = markdown(drawn(workshop.show("table1", references)), "table1")
    assert cells(text, "FedPer") == ["<ins>4.00</ins>", "–", "<ins>4.00</ins>", "no"]


def test_best_and_second_are_marked_among_federated_methods_alone(workshop: Workshop) -> None:
    for method, error in {"atlas": 3.0, "fedavg": 2.0, "fedper": 4.0, "persistence": 1.0, "stid": 1.5}.items():
        workshop.run(method, error)
    text = markdown(drawn(workshop.show("table1")), "table1")
    marked = {name: cells(text, name)[0] for name in ("FedAvg", "Atlas", "FedPer", "Persistence", "STID")}
    assert marked == {
        "FedAvg": "**2.00**",
        "Atlas": "<ins>3.00</ins>",
        "FedPer": "4.00",
        "Persistence": "1.00†",
        "STID": "1.50",
    }


def test_rankings_of_their_own_are_named(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    workshop.run("stid", 1.0)
    notes = drawn(workshop.show("table1")).notes
    assert "Ranked apart: General federated and Federated spatio-temporal; Centralised." in notes


def test_what_does_not_federate_is_not_ranked_where_a_study_says_nothing() -> None:
    names = read_names(CONFIG / "names.yaml")
    groups, rankings = names.ranking([("atlas", "base"), ("fedavg", "base"), ("stid", "base"), ("local", "base")])
    assert len(groups) == 4
    assert rankings == [["Federated spatio-temporal", "General federated"]]


def test_columns_without_anything_and_groups_without_names_are_left_out() -> None:
    header = [("", "error"), ("", "paper"), ("", "why")]
    prose = "because there is a good deal to be said of it"
    rows = [("", "a", [Cell("1.0"), Cell(), Cell(prose)]), ("", "b", [Cell("diverged"), Cell(), Cell()])]
    table = Table(header, rows, "What is shown", "", pd.DataFrame({"x": [1]}))
    text = markdown(table, "table1")
    assert "| Method | error | why |\n| :--- | ---: | --- |" in text
    assert f"| a | 1.0 | {prose} |" in text
    assert "paper" not in latex(table, "table1")
    nothing = Table(header, [("g", "a", [Cell()] * 3)], "What is shown", "", pd.DataFrame({"x": [1]}))
    assert "| Group | Method |\n| :--- | :--- |\n| g | a |" in markdown(nothing, "table1")
    assert "g & a" in latex(nothing, "table1")


def test_rows_that_print_the_same_value_share_the_mark(workshop: Workshop) -> None:
    for method, error in {"atlas": 3.001, "fedavg": 2.999, "fedper": 4.0}.items():
        workshop.run(method, error)
    text = markdown(drawn(workshop.show("table1")), "table1")
    assert [cells(text, name)[0] for name in ("Atlas", "FedAvg", "FedPer")] == [
        "**3.00**",
        "**3.00**",
        "<ins>4.00</ins>",
    ]


def test_a_diverged_method_is_printed_as_diverged_with_the_reason_in_the_csv(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    workshop.run("fedavg", 9.0, diverged="loss of client a is not finite in round 2, batch 1")
    workshop.run("fedper", 4.0, seed=0)
    workshop.run("fedper", 9.0, seed=1, diverged="loss of client b is not finite in round 0, batch 3")
    table = drawn(workshop.show("table1"))
    text = markdown(table, "table1")
    assert cells(text, "FedAvg") == ["diverged", "diverged", "1", "–"]
    assert cells(text, "FedPer")[0] == "4.00 [1/2]"
    row = headlines(table.tidy).loc[("fedavg", "base")]
    assert pd.isna(row["ours_mean"])
    assert row["seeds"] == 0
    assert "client a" in row["note"]


def test_a_part_of_a_dataset_is_named_as_a_part(workshop: Workshop) -> None:
    workshop.panel("pems08-tail", part="last 7156 steps of PEMS08")
    workshop.run("atlas", 3.0)
    workshop.run("atlas", 20.0, dataset="pems08-tail")
    table = drawn(workshop.show("table1"))
    for text in (markdown(table, "table1"), latex(table, "table1")):
        assert "last 7156 steps of PEMS08" in text
        assert "pems08-tail" not in text


def test_a_caption_names_scale_seeds_and_rounds(workshop: Workshop) -> None:
    for seed in (0, 4):
        workshop.run("atlas", 3.0, seed=seed)
    text = markdown(drawn(workshop.show("table1", caption="Errors of everything")), "table1")
    assert text.startswith("# Table 1: Errors of everything\n")
    assert "Scale quick; seeds 0, 4; 5 rounds on METR-LA." in text


def test_rows_of_fewer_seeds_and_of_another_protocol_are_named(workshop: Workshop) -> None:
    for seed in (0, 1):
        workshop.run("atlas", 3.0, seed=seed)
    for method in ("fedavg", "fedper"):
        workshop.run(method, 3.0)
    workshop.run("fedgru", 3.0, protocol={"batch": 64})
    workshop.run("fedgtp", 3.0, protocol={"rounds": 20, "batch": 32, "batches": 0})
    table = drawn(workshop.show("table1"))
    text = markdown(table, "table1")
    assert "Scale quick; seeds 0 (Atlas: 0, 1); 5 rounds on METR-LA." in text
    assert "Not trained like most: FedGRU: batch 64; FedGTP: 20 rounds, batch 32, batches all." in text
    seeds = [title for _, title in table.header].index("Seeds")
    assert [cells(text, name)[seeds] for name in ("Atlas", "FedAvg", "FedGTP")] == ["2", "1", "1"]


def test_where_all_rows_are_alike_nothing_is_said_of_it(workshop: Workshop) -> None:
    for method in ("atlas", "fedavg"):
        workshop.run(method, 3.0)
    table = drawn(workshop.show("table1"))
    assert "Seeds" not in [title for _, title in table.header]
    assert "Not trained like most" not in table.notes


def test_paired_tests_are_against_the_best_federated_method_and_corrected(workshop: Workshop) -> None:
    for method, error in {"atlas": 3.0, "fedavg": 3.5, "fedper": 3.0, "persistence": 5.0}.items():
        workshop.run(method, error)
    rows = headlines(drawn(workshop.show("table1")).tidy)
    assert pd.isna(rows.loc[("fedper", "base"), "against"]) or pd.isna(rows.loc[("atlas", "base"), "against"])
    fedavg = rows.loc[("fedavg", "base")]
    assert fedavg["effect"] == pytest.approx(0.5, abs=0.01)
    assert fedavg["effect_lo"] < fedavg["effect"] < fedavg["effect_hi"]
    assert fedavg["p"] < 0.01
    assert fedavg["p"] <= fedavg["p_holm"] <= 3 * fedavg["p"]


def test_ablations_are_tested_against_atlas_and_controls_stand_apart(workshop: Workshop) -> None:
    for variant, error in {"base": 3.0, "A.1": 2.9, "A.4prime": 2.8, "FR": 3.2}.items():
        workshop.run("atlas", error, variant=variant)
    workshop.run("local", 2.5)
    table = drawn(workshop.show("table2"))
    assert set(headlines(table.tidy)["against"].dropna()) == {"atlas/base"}
    assert [label for _, label, _ in table.rows] == [
        "Atlas",
        "A.1, no aggregation",
        "A.4′, no alignment, independent starts",
        "FR, frozen random codebook",
        "NC, no codebook, local",
    ]
    assert len({group for group, _, _ in table.rows}) == 2


def test_an_ablation_without_its_base_has_no_test(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0, diverged="loss of client a is not finite in round 0, batch 0")
    workshop.run("atlas", 3.0, variant="A.1")
    assert drawn(workshop.show("table2")).tidy["p"].isna().all()


def test_the_csv_also_holds_horizons_means_over_nodes_unmasked_errors_and_the_last_round(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    tidy = drawn(workshop.show("table1")).tidy
    tidy = tidy[tidy["metric"] != "late_gain"]
    assert set(tidy["horizon"]) == {"3", "6", "12", "all"}
    assert set(tidy["metric"]) == {"mae", "rmse", "mape", "mse"}
    assert set(tidy["unit"]) == {"pooled", "mean"}
    assert set(tidy["condition"]) == {"mask=masked", "mask=unmasked"}
    assert set(tidy["selection"]) == {"selected", "last"}


def test_the_same_runs_give_the_same_files_in_whatever_order_they_come(workshop: Workshop, tmp_path: Path) -> None:
    for method, error in {"fedavg": 3.5, "atlas": 3.0}.items():
        workshop.run(method, error)
    write_table(drawn(workshop.show("table1")), tmp_path / "one" / "table1")
    workshop.runs.reverse()
    write_table(drawn(workshop.show("table1")), tmp_path / "two" / "table1")
    for suffix in ("csv", "md", "tex"):
        one, two = ((tmp_path / side / f"table1.{suffix}").read_bytes() for side in ("one", "two"))
        assert one == two


def test_latex_uses_booktabs_and_escapes_what_latex_would_read(workshop: Workshop) -> None:
    workshop.panel("own_data", part="rows 1_000 & more, 50 %")
    workshop.run("atlas", 3.0, dataset="own_data")
    text = latex(drawn(workshop.show("table1")), "table1")
    assert "\\toprule" in text
    assert "\\bottomrule" in text
    assert "rows 1\\_000 \\& more, 50 \\%" in text
    assert escape_latex("a_b") == "a\\_b"


def test_artifacts_are_called_by_their_names() -> None:
    assert title("table1") == "Table 1"
    assert title("figure_curves") == "Figure (curves)"


def test_a_broken_reference_file_is_refused_with_the_row(tmp_path: Path) -> None:
    path = tmp_path / "references.csv"
    path.write_text("table,dataset,method,variant,condition,metric,value\ntable1,metr-la,atlas,base,,mae,3.3x\n")
    with pytest.raises(InputError, match=r"row 2: expected a number, found '3.3x'"):
        read_references(path)
    path.write_text("table,dataset,method\ntable1,metr-la,atlas\n")
    with pytest.raises(InputError, match="expected columns"):
        read_references(path)


def test_the_published_tables_are_whole(repository: Path) -> None:
    """15 baselines and Atlas on 5 datasets; 7 columns, 20 and 4 on 2; two metrics, but RMSE alone in Table 3."""
    published = read_references(repository / "config" / "references" / "atlas.csv")
    tables = published[published["table"].str.startswith("table")]
    assert tables.groupby("table").size().to_dict() == {
        "table1": 16 * 5 * 2,
        "table2": 7 * 2 * 2,
        "table3": 4 * 5 * 2,
        "table4": 4 * 2 * 2,
    }
    atlas = published[(published["method"] == "atlas") & (published["variant"] == "base")]
    agreed = atlas[atlas["condition"] == ""].groupby(["dataset", "metric"])["value"].nunique()
    assert (agreed == 1).all()
