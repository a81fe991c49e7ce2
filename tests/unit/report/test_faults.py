"""Errors against faults: every run stands in the panel of what it met, and one that diverged is not averaged away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fedloom.errors import InputError
from fedloom.report.figure import Figure, style
from fedloom.report.forecast.faults import FaultOptions, error_by_fault

from .conftest import Workshop

HUGE: dict[str, Any] = {"faults": {"garbage": 0.1, "filled_with": "huge"}}
LOST: dict[str, Any] = {"faults": {"lost": 0.3}}
MEDIAN: dict[str, Any] = {"server_rule": {"kind": "median"}}


def run(workshop: Workshop, error: float, variant: str, protocol: dict[str, Any], **how: Any) -> None:
    """Make a run of Atlas on METR-LA under ``protocol``."""
    workshop.run("atlas", error, variant, **how)
    path = workshop.runs[-1] / "run.json"
    record = json.loads(path.read_text())
    record["spec"]["protocol"] |= {"train_stride": 1} | protocol
    record["spec"]["params"] = {}
    path.write_text(json.dumps(record))


@pytest.fixture
def figure(workshop: Workshop) -> Iterator[Figure]:
    run(workshop, 3.0, "base", {})
    run(workshop, 4.0, "lost", LOST)
    run(workshop, 50.0, "huge", HUGE)
    run(workshop, 3.5, "huge_median", HUGE | MEDIAN)
    run(workshop, 9.0, "nan", {"faults": {"garbage": 0.2}}, diverged="an upload is not finite")
    with style():
        yield error_by_fault(workshop.show("figure_faults"), FaultOptions())


def lines(figure: Figure, panel: str) -> list[dict[float, float]]:
    """Share hit -> error of every line of the panel with this title."""
    (ax,) = (ax for ax in figure.drawn.axes if ax.get_title(loc="left") == panel)
    return [dict(zip(*line.get_data(), strict=True)) for line in ax.get_lines()]


def test_a_line_begins_at_the_run_without_faults(figure: Figure) -> None:
    (line,) = lines(figure, "lost uploads")
    assert line == pytest.approx({0.0: 3.0, 30.0: 4.0}, rel=0.01)


def test_each_rule_has_a_line_of_its_own(figure: Figure) -> None:
    mean, median = lines(figure, "huge uploads")
    assert mean == pytest.approx({0.0: 3.0, 10.0: 50.0}, rel=0.01)
    assert median == pytest.approx({10.0: 3.5}, rel=0.01)


def test_a_run_that_diverged_is_a_cross_and_no_point_of_the_line(figure: Figure) -> None:
    line, crosses = lines(figure, "NaN for uploads")
    assert list(line) == [0.0]
    assert list(crosses) == [20.0]
    assert "diverged" in [text.get_text() for text in figure.drawn.legends[0].get_texts()]


def test_errors_of_many_sizes_are_drawn_by_their_logarithm(figure: Figure) -> None:
    scales = {ax.get_title(loc="left"): ax.get_yscale() for ax in figure.drawn.axes}
    assert scales["huge uploads"] == "log"
    assert scales["lost uploads"] == "linear"


def test_one_run_has_one_kind_of_fault(workshop: Workshop) -> None:
    run(workshop, 3.0, "both", {"participation": 0.5} | LOST)
    with pytest.raises(InputError, match="both: expected at most one kind of fault, found absent and lost"):
        error_by_fault(workshop.show("figure_faults"), FaultOptions())


def test_without_faults_there_is_nothing_to_draw(workshop: Workshop) -> None:
    run(workshop, 3.0, "base", {})
    with pytest.raises(InputError, match="expected runs with faults, found none"):
        error_by_fault(workshop.show("figure_faults"), FaultOptions())
