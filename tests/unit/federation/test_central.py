"""A network at a centre sees all nodes at once, in one scale; what it costs is the readings handed over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import HISTORY, HORIZON, PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.central import Central, Centre, Learning, Scene, dropped
from fedloom.federation.method import Phase, Step
from fedloom.federation.optim import SGD, Adam, stepped
from fedloom.federation.rounds import Federation
from fedloom.federation.tasks.forecast import ForecastTask
from fedloom.models.layers.norm import BatchNorm

EVERY = torch.tensor([[3, 17, 30, 41]] * 5)
ROWS = torch.arange(5)


class Net(nn.Module):
    """A normalised linear map of the history, the same for all nodes."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.norm, self.output = BatchNorm(HISTORY), nn.Linear(HISTORY, HORIZON)

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        return self.output(dropped(self.norm(scene.x_NBT, learning), learning, "window", self.rate))


class Plain(Central):
    """The net above."""

    name, cite = "plain", "none"

    def client(self, task: ForecastTask) -> nn.Module:
        return Centre(task, Net())

    def steps(self, phase: Phase) -> tuple[Step, ...]:
        return (Step(self.loss, SGD(1e-3)),)


@pytest.fixture
def task() -> ForecastTask:
    return problem(equal=True).task()


def test_all_nodes_are_in_one_scale_and_forecasts_go_back_to_each_client_s_own(task: ForecastTask) -> None:
    class Last(nn.Module):
        def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
            return scene.x_NBT[..., -1:].expand(-1, -1, HORIZON)

    centre = Centre(task, Last()).double()
    batch = task.batch("train", ROWS, EVERY)
    raw = batch.x * task.sd[:, None, None] + task.mean[:, None, None]
    x_NBT = centre.scene(batch).x_NBT[centre.place]
    gain = (x_NBT[0, 0, 0] - x_NBT[4, 1, 2]) / (raw[0, 0, 0] - raw[4, 1, 2])
    torch.testing.assert_close(x_NBT - x_NBT[0, 0, 0], gain * (raw - raw[0, 0, 0]))
    spread = np.sqrt(np.mean(np.square(task.sd.numpy()) + np.square(task.mean.numpy() - task.mean.numpy().mean())))
    assert 1 / gain.item() == pytest.approx(spread)
    torch.testing.assert_close(centre(batch), batch.x[..., -1:].expand(-1, -1, HORIZON))


def test_the_network_is_told_the_clock_of_every_input_step(task: ForecastTask) -> None:
    scene = Centre(task, nn.Identity()).double().scene(task.batch("train", ROWS, EVERY))
    for row, start in enumerate(EVERY[0].tolist()):
        steps = torch.arange(start, start + HISTORY)
        assert torch.equal(scene.slot_BT[row], task.clock[steps, 0])
        assert torch.equal(scene.weekday_BT[row], task.clock[steps, 1])


def test_the_clients_parts_of_the_loss_sum_to_the_mean_error_in_the_readings_unit(task: ForecastTask) -> None:
    federation = Federation(Plain(), task, replace(PROTOCOL, rounds=1, batch=1000, train_stride=1), seed=0)
    state = federation.start()
    centre = federation.skeleton
    centre.load_state_dict({n: v[0] for n, v in (state.params | state.buffers).items()})
    rows, everything = ROWS, torch.arange(int(task.sizes("train")[0])).expand(5, -1)
    gap, _ = centre.learn(task.batch("train", rows, everything), {}, 0.0)
    truth, observed = task.truth("train", rows, everything)
    forecast = task.batch("train", rows, everything).y * task.sd[:, None, None] + gap + task.mean[:, None, None]
    expected = (forecast - truth).abs()[observed].mean().item()
    federation.run(state)
    assert sum(v for _, _, quantity, v in state.log if quantity == "train_loss") == pytest.approx(expected)


def test_what_training_costs_is_each_client_s_readings_handed_over_once(task: ForecastTask) -> None:
    federation = Federation(Plain(), task, replace(PROTOCOL, rounds=2), seed=0)
    log = federation.run(federation.start()).log
    up = {(r, c): v for r, c, quantity, v in log if quantity == "bytes_up"}
    down = {v for _, _, quantity, v in log if quantity == "bytes_down"}
    last = max(int(task.starts[part].max()) for part in ("train", "validation")) + HISTORY + HORIZON
    assert {v for (r, _), v in up.items() if r == 0} == {4 * last}
    assert {v for (r, _), v in up.items() if r == 1} == down == {0}


def test_batch_normalisation_is_torch_s_and_its_statistics_go_on_from_step_to_step(task: ForecastTask) -> None:
    norm = nn.BatchNorm1d(HISTORY).double()
    federation = Federation(Plain(), task, replace(PROTOCOL, rounds=1, batch=1000, train_stride=1), seed=0)
    state = federation.run(federation.start())
    batch = task.batch("train", ROWS, torch.arange(int(task.sizes("train")[0])).expand(5, -1))
    norm(federation.skeleton.scene(batch).x_NBT.flatten(0, 1))
    torch.testing.assert_close(state.buffers["net.norm.mean"][0], norm.running_mean)
    torch.testing.assert_close(state.buffers["net.norm.variance"][0], norm.running_var)


def test_judged_weights_normalise_by_the_statistics_and_drop_nothing(task: ForecastTask) -> None:
    centre = Centre(task, Net(rate=0.5)).double()
    centre.net.norm.mean += 0.3
    centre.net.norm.variance *= 2.0
    batch = task.batch("train", ROWS, EVERY)
    scene = centre.scene(batch)
    expected = centre.net.output((scene.x_NBT - 0.3) / (2.0 + 1e-5) ** 0.5)
    torch.testing.assert_close(centre.net(scene, None), expected)
    draws = {"window": torch.rand(5, 4, HISTORY, dtype=torch.float64)}
    kept, _ = centre.learn(batch, draws, 0.0)
    assert not torch.equal(kept, centre.learn(batch, {"window": torch.ones_like(draws["window"])}, 0.0)[0])


def test_dropout_keeps_what_is_drawn_above_the_rate_and_scales_it(task: ForecastTask) -> None:
    x, draws = torch.ones(2, 3), torch.tensor([[0.1, 0.3, 0.9], [0.25, 0.2, 0.5]])
    found = dropped(x, Learning({"here": draws}, 0.0), "here", 0.25)
    assert torch.equal(found, torch.tensor([[0, 1, 1], [1, 0, 1]]) / 0.75)
    assert dropped(x, None, "here", 0.25) is x


def test_windows_at_different_moments_cannot_meet(task: ForecastTask) -> None:
    starts = task.starts["train"].clone()
    starts[2] += 1
    with pytest.raises(InputError, match="train windows: expected those of all at the same moments, found others"):
        Centre(replace(task, starts=task.starts | {"train": starts}), Net())


def test_the_rate_falls_at_every_milestone() -> None:
    found = [stepped(0.8, (0.2, 0.5), 0.5, round_ / 10) for round_ in (0, 1, 2, 4, 5, 9)]
    assert found == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


def test_the_weight_penalty_joins_the_gradient_after_clipping_as_in_torch() -> None:
    weight = torch.linspace(-2, 2, 6, dtype=torch.float64)
    theirs, ours = nn.Parameter(weight.clone()), {"w": weight.clone()[None]}
    torch_adam = torch.optim.Adam([theirs], lr=0.05, weight_decay=0.3, eps=1e-3)
    adam = Adam(0.05, clip=1.0, l2=0.3, eps=1e-3)
    moments = adam.start(ours)
    for step in range(4):
        gradient = torch.linspace(1, 3, 6, dtype=torch.float64) * (step + 1)
        theirs.grad = gradient.clone()
        nn.utils.clip_grad_norm_([theirs], 1.0)
        torch_adam.step()
        adam.step(ours, {"w": gradient.clone()[None]}, moments)
    torch.testing.assert_close(ours["w"][0], theirs.detach())
