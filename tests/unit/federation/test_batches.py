"""A cap on minibatches: unequal clients take equally many steps, on samples drawn anew every round."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.check.problems import PROTOCOL, series_problem
from fedloom.federation.local import draw_noise
from fedloom.federation.method import Method, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.rounds import Federation
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows


class Counts(Method):
    """One weight that goes up by the samples of each minibatch, and a phase that looks on without a gradient step."""

    name, cite, family = "counts", "a count of what arrives", "series"

    def client(self, task: SeriesTask) -> torch.nn.Module:
        module = torch.nn.Module()
        module.w = torch.nn.Parameter(torch.zeros(()))
        module.register_buffer("taken", torch.zeros(2))
        module.forward = lambda batch: batch.x
        return module

    def phases(self, round_: int, rounds: int) -> tuple[Phase, ...]:
        return (Phase(), Phase("look", batches=1))

    def steps(self, phase: Phase) -> tuple[Step, ...]:
        return (Step(self.loss, Adam(0.1) if phase.name == "train" else None, name=phase.name),)

    def loss(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        more = torch.stack([torch.ones(()).to(batch.x), batch.valid.sum()])
        return Outcome(model["w"] * 0, {"taken": model["taken"] + more})


def taken(**protocol: object) -> tuple[list[list[float]], list[int], list[str]]:
    settings = replace(PROTOCOL, rounds=1, train_stride=1, **protocol)
    federation = Federation(Counts(), series_problem().task(settings), settings, 0)
    state = federation.run(federation.start())
    sizes = federation.task.sizes("train").tolist()
    return state.buffers["taken"].tolist(), sizes, [q for _, _, q, _ in state.log]


def test_without_a_cap_every_sample_is_taken_once() -> None:
    counts, sizes, _ = taken(batch=16)
    for (steps, samples), size in zip(counts, sizes, strict=True):
        assert steps == (-(-size // 16) + 1 if size else 0)
        assert samples == (size + 16 if size else 0)


def test_with_a_cap_all_take_as_many_steps_and_a_phase_may_have_its_own() -> None:
    counts, sizes, _ = taken(batch=16, batches=2)
    assert counts == [[3, 48] if size else [0, 0] for size in sizes]


def test_a_phase_without_a_gradient_step_logs_no_training_loss() -> None:
    _, sizes, quantities = taken(batch=16)
    assert quantities.count("train_loss") == len(sizes)


def test_a_word_in_the_shape_of_noise_is_the_tasks_number() -> None:
    task = series_problem().task()
    noise = {"each": Noise(("tokens",)), "all": Noise((3, "length"), per_sample=False)}
    drawn = draw_noise(Step(Counts().loss, None, noise=noise), task, task.keys, 7)
    assert drawn["each"].shape == (5, 7, task.tokens)
    assert drawn["all"].shape == (5, 3, task.length)
