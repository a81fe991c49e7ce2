"""Figures are the same bytes when drawn again and carry their captions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.report.curves import CurveOptions, curve, curves
from fedloom.report.figure import read_caption, style, write_figure

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
