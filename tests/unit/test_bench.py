"""What the benchmarks time is the same training, and what they count is counted right."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from bench import ceiling, command, growth, heads, loop, precision, throughput
from bench.problem import Problem, Setting
from bench.studies import studies
from fedloom.errors import InputError

TINY = Setting(clients=3, batch=4, steps=2, rounds=1)


@pytest.mark.parametrize("model", ["mlp", "gru", "atlas"])
@pytest.mark.parametrize("peer", ["loop", "pfl"])
def test_a_peer_ends_with_the_engines_weights(model: str, peer: str) -> None:
    if peer == "pfl":
        pytest.importorskip("pfl")
    table = throughput.compare(replace(TINY, model=model), [peer], repeats=1)
    assert list(table["program"]) == ["engine", peer]
    assert (table["apart"] < throughput.EQUAL).all()
    assert (table["seconds"] > 0).all()


@pytest.mark.slow
def test_flower_ends_with_the_engines_weights() -> None:
    pytest.importorskip("flwr")
    assert (throughput.compare(TINY, ["flower"], repeats=1)["apart"] < throughput.EQUAL).all()


def test_training_moves_the_weights_far_beyond_what_counts_as_equal() -> None:
    problem = Problem(TINY)
    after = loop.run(problem).weights
    assert max(float((after[n] - w).abs().max()) for n, w in problem.first_weights.items()) > 100 * throughput.EQUAL


def test_a_program_that_ends_elsewhere_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = loop.run

    def off(problem: Problem) -> loop.Timing:
        seconds, weights = honest(problem)
        return loop.Timing(seconds, {name: value + 1e-3 for name, value in weights.items()})

    monkeypatch.setattr(loop, "run", off)
    with pytest.raises(InputError, match="loop: weights: expected the engine's within 1e-05"):
        throughput.compare(TINY, ["loop"], repeats=1)


def test_all_heads_at_once_have_the_gradients_of_a_loop_over_them() -> None:
    table = heads.heads([2, 3], steps=5, batch=4, repeats=1, device=torch.device("cpu"))
    assert list(table["program"]) == ["engine", "loop"] * 2
    assert table["apart"].between(0, heads.EQUAL).all()
    assert (table["seconds"] > 0).all()


def test_heads_with_other_gradients_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = heads.looped
    monkeypatch.setattr(heads, "looped", lambda m, x: {n: 1.001 * g for n, g in honest(m, x).items()})
    with pytest.raises(InputError, match="heads: gradients: expected the loop's within 1e-05"):
        heads.heads([2], steps=5, batch=4, repeats=1, device=torch.device("cpu"))


def test_a_panel_is_judged_whole_in_a_process_of_its_own() -> None:
    from bench.evaluation import evaluation  # needs more than a bare GPU machine has

    table = evaluation(3, [400], "cpu")
    assert list(table["steps"]) == [400]
    assert (table["peak_megabytes"] > 50).all()


@pytest.mark.parametrize(("peer", "package"), throughput.NEEDS.items())
def test_a_peer_without_its_package_says_what_to_install(peer: str, package: str) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(InputError, match="expected the environment of make bench"):
        throughput.runner(peer)


def test_the_products_of_a_step_are_those_of_the_network() -> None:
    setting = replace(TINY, model="mlp")
    run = ceiling.one_step(Problem(setting))
    with ceiling.Products() as seen:
        run()
    # Forward and weight gradient of both layers, and the gradient of the hidden units.
    one_layer = 2.0 * setting.clients * setting.batch * 12 * 64
    assert sum(ceiling.flop(shape) * count for shape, count in seen.shapes.items()) == 5 * one_layer


@pytest.mark.parametrize("model", ["mlp", "gru", "atlas"])
def test_a_step_of_many_clients_starts_no_more_operations_than_that_of_one(model: str) -> None:
    counts = []
    for clients in (1, 40):
        run = ceiling.one_step(Problem(replace(TINY, model=model, clients=clients)))
        with ceiling.Products() as seen:
            run()
        counts.append(seen.calls)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("history", [12, 192])
def test_every_window_of_a_problem_lies_in_its_panel(history: int) -> None:
    task = Problem(replace(TINY, history=history)).task
    for part, counted in task.counts.items():
        assert counted.min() >= 1
        assert int(task.starts[part].max()) + history + task.horizon <= task.inputs.shape[1]


def test_a_power_law_has_its_exponent_as_slope() -> None:
    size = pd.Series([10.0, 100.0, 1000.0])
    assert growth.slope(size, 3 * size**1.5) == pytest.approx(1.5)


def test_stages_of_a_study_are_summed_by_method(tmp_path: Path) -> None:
    for stage, method, seed, seconds in (("train", "a", 0, 3.0), ("train", "a", 1, 5.0), ("train", "b", 0, 2.0)):
        file = tmp_path / stage / "quick" / "data" / method / "base" / f"seed{seed}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"s\tmax_rss\n{seconds}\t{100 + seed}\n")
    (tmp_path / "panel").mkdir()
    (tmp_path / "panel" / "data.tsv").write_text("s\tmax_rss\n10\t50\n")
    table = studies(tmp_path).set_index(["stage", "method"])
    assert table.loc[("train", "a"), ["jobs", "seconds", "peak_megabytes"]].tolist() == [2, 8.0, 101]
    assert table["share"].tolist() == [0.5, 0.4, 0.1]


def test_no_benchmark_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected benchmark files"):
        studies(tmp_path)


@pytest.mark.gpu
def test_on_cuda_the_engine_ends_with_the_loops_weights() -> None:
    table = throughput.compare(replace(TINY, model="atlas", device="cuda"), ["loop"], repeats=1)
    assert torch.cuda.is_available()
    assert (table["apart"] < throughput.EQUAL).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "throughput", "--device", "cuda"])
    with pytest.raises(InputError, match="expected a CUDA device"):
        command.run()


def test_reduced_products_change_the_weights_a_little_and_the_score_hardly() -> None:
    table = precision.precision([replace(TINY, model="mlp", batch=16, steps=8, rounds=2)]).set_index("products")
    assert 0 < table.loc["bfloat16", "score_change"] < 0.01
    assert table.loc["full", ["times_full", "score_change"]].tolist() == [1, 0]
