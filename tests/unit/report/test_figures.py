"""Figures are the same bytes when drawn again and carry their captions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.errors import InputError
from fedloom.report.curves import ColumnOptions, CurveOptions, curve, curves, curves_by_group
from fedloom.report.figure import Figure, grid, read_caption, style, write_figure

from .conftest import NODES, Workshop

QUANTITY = "validation_score"


def draw(workshop: Workshop, stem: Path) -> None:
    """Draw the curves of all runs made so far."""
    with style():
        write_figure(curves(workshop.show("figure_curves"), CurveOptions("validation MAE", QUANTITY)), stem)


def test_a_figure_drawn_again_is_the_same_bytes(workshop: Workshop, tmp_path: Path) -> None:
    workshop.run("atlas", 3.0)
    workshop.run("local", 3.2, sent=0)
    for side in ("one", "two"):
        draw(workshop, tmp_path / side / "figure_curves")
    for suffix in ("pdf", "png"):
        one, two = ((tmp_path / side / f"figure_curves.{suffix}").read_bytes() for side in ("one", "two"))
        assert one == two
        assert b"CreationDate" not in one


def test_a_figure_carries_its_caption(workshop: Workshop, tmp_path: Path) -> None:
    workshop.run("atlas", 3.0)
    draw(workshop, tmp_path / "figure_curves")
    heading, notes = read_caption(tmp_path / "figure_curves.png")
    assert heading == "Figure (curves): What is shown"
    assert "Scale quick; seeds 0; 5 rounds on METR-LA." in notes


def test_megabytes_are_summed_over_clients_and_rounds(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0, sent=2_000_000)
    found = curve(workshop.show("figure_curves"), "metr-la", ("atlas", "base"), QUANTITY)
    assert found is not None
    assert list(found.sent) == [2.0 * len(NODES) * rounds for rounds in range(1, 6)]
    assert list(found.error.index) == [1, 2, 3, 4, 5]


def test_a_band_spans_the_seeds(workshop: Workshop) -> None:
    for seed, error in enumerate([2.0, 4.0]):
        workshop.run("atlas", error, seed=seed)
    found = curve(workshop.show("figure_curves"), "metr-la", ("atlas", "base"), QUANTITY)
    assert found is not None
    assert found.error.iloc[0].to_dict() == pytest.approx({"mean": 6.0, "least": 4.0, "largest": 8.0})


def test_a_column_shows_its_groups_and_the_foremost_and_one_without_runs_is_left_out(workshop: Workshop) -> None:
    for place, method in enumerate(["atlas", "fedavg", "fedper", "dcrnn"]):
        workshop.run(method, 3.0 + place)
    columns = {name: (name,) for name in ("General federated", "Federated spatio-temporal", "Centralised")}
    with style():
        drawn = curves_by_group(workshop.show("figure_curves"), ColumnOptions("validation MAE", columns)).drawn
    named = {ax.get_title("left"): [text.get_text() for text in ax.get_legend().get_texts()] for ax in drawn.axes}
    assert named == {"General federated": ["Atlas", "FedAvg", "FedPer"], "Centralised": ["Atlas", "DCRNN"]}


def test_a_column_of_an_unknown_group_is_one_line(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    with pytest.raises(InputError, match=r"options\.columns\.All: expected one of .*; found 'Everyone'"):
        curves_by_group(workshop.show("figure_curves"), ColumnOptions("validation MAE", {"All": ("Everyone",)}))


def test_a_title_too_long_for_its_panel_is_broken_into_lines(tmp_path: Path) -> None:
    title = "Cabspotting, ends of trips, 2008-05-17 to 2008-06-08"
    with style():
        drawn, axes = grid(1, 2, 2.0)
        for ax in axes[0]:
            ax.set_title(title)
        write_figure(Figure(drawn, "A caption", "Notes"), tmp_path / "figure1")
    for ax in axes[0]:
        assert "\n" in ax.get_title("left")
        assert " ".join(ax.get_title("left").split()) == title
