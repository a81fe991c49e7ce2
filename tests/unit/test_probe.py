"""A probe takes one step of every method at a scale's settings, and projects runs from it in proportion."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.probe import SHAPES, Shape, Size, in_child, probe, runs_of, size_of
from bench.projection import Cost, document
from fedloom.methods.registry import make

CPU = torch.device("cpu")
TINY = Shape(sensors=6, steps=600, edges=12)
COST = Cost("d", "m", 10, 1_000, 64, 0.5, 20, 2.0, 300, 400.0, "", seeds=2)


@pytest.mark.parametrize("method", ["atlas", "fedgtp", "stid"])
def test_a_step_at_the_papers_settings_runs_on_data_of_a_shape(method: str) -> None:
    spec, dataset, seeds = next(iter(runs_of("paper", "atlas", [method])))
    cost = in_child(spec, dataset, TINY, Size(clients=2, windows=2), CPU)
    assert seeds == 5
    assert (cost.method, cost.clients, cost.rounds) == (method, TINY.sensors, 200)
    assert cost.step_seconds > 0
    assert cost.parameters > 10_000


def test_all_methods_of_a_scale_are_probed_on_all_its_datasets_but_those_without_rounds() -> None:
    pairs = [(spec["method"], spec["dataset"]) for spec, _, _ in runs_of("paper", "atlas", None)]
    assert {dataset for _, dataset in pairs} == set(SHAPES)
    assert len(pairs) == len(set(pairs))
    everywhere = [method for method, dataset in pairs if dataset == "metr-la"]
    assert len(everywhere) == 18
    assert "persistence" not in everywhere


def test_clients_that_meet_are_all_there() -> None:
    few = Size(clients=2, windows=3)
    sizes = {}
    for method in ("atlas", "fedgtp", "stid"):
        spec, _, _ = next(iter(runs_of("paper", "atlas", [method])))
        sizes[method] = size_of(make(spec), TINY, 64, few)
        assert size_of(make(spec), TINY, 64, None) == Size(6, 64)
    assert sizes == {"atlas": Size(2, 64), "fedgtp": Size(6, 3), "stid": Size(6, 3)}


def test_a_probe_that_fails_in_its_process_says_why() -> None:
    spec, dataset, _ = next(iter(runs_of("paper", "atlas", ["stid"])))
    broken = {**spec, "params": {**spec["params"], "lr": float("nan")}}
    with pytest.raises(RuntimeError, match="not finite"):
        in_child(broken, dataset, TINY, Size(2, 2), CPU)
    with pytest.raises(RuntimeError, match="not finite"):
        probe(broken, dataset, TINY, Size(2, 2), CPU)


def test_hours_are_rounds_of_steps_and_a_look_at_the_validation_part() -> None:
    assert COST.round_seconds == 12
    assert COST.hours == 1


def test_the_page_sums_hours_over_seeds() -> None:
    text = document([COST, replace(COST, dataset="e", seeds=1)], CPU, "paper")
    assert text.endswith("Hours in all, all seeds: d 2, e 1; together 3.\n")
    assert text.count("whole step") == 2
    assert "one core" not in text
    assert "one core" in document([replace(COST, taken="2 clients, 64 windows")], CPU, "paper")
