"""RCGAN and TimeGAN: who trains what, what a draw depends on, and how a generator answers do(T = a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import ACTIONS, PROTOCOL, trajectory_problem
from fedloom.errors import InputError
from fedloom.federation.method import Method, Moment, Phase, Step
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.task import Validation
from fedloom.federation.tasks.trajectory import Trajectories
from fedloom.federation.worlds import World
from fedloom.methods import timegan
from fedloom.methods.rcgan import RCGAN
from fedloom.methods.timegan import TimeGAN
from fedloom.models.layers.five_nets import FiveNets
from fedloom.models.layers.sampled import Drawn

DRAWS, NOISE, LONGEST = 3, {"rcgan": 10, "timegan": 8}, 6
ROUNDS = replace(PROTOCOL, rounds=5, participation=0.5, train_stride=1, batch=64)
KINDS = pytest.mark.parametrize("kind", [RCGAN, TimeGAN])


@cache
def trained(kind: type[Method]) -> tuple[Federation, State]:
    federation = Federation(kind(kind.Params(draws=DRAWS)), trajectory_problem().task(ROUNDS), ROUNDS, 0)
    return federation, federation.run(federation.start())


def one_client(kind: type[Method], client: int = 0) -> tuple[Bound, Trajectories]:
    federation, state = trained(kind)
    task = federation.task
    weights = {n: w[client] for n, w in federation.weights(state).items()}
    batch = task.batch("train", torch.tensor([client]), torch.arange(int(task.sizes("train")[client]))[None])
    return Bound(federation.skeleton, weights), type(batch)(*(part[0] for part in batch))


def noise(kind: type[Method], *shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, NOISE[kind.name], generator=generator, dtype=torch.float64)


def only(kind: type[Method], name: str) -> tuple[State, State]:
    """The states before and after a round in which of all steps the one of this name alone was taken."""

    class Alone(kind):  # type: ignore[misc, valid-type]
        name = kind.name

        def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
            return (Phase("joint" if kind is TimeGAN else "train"),)

        def steps(self, phase: Phase) -> Sequence[Step]:
            return [step for step in super().steps(phase) if step.name == name]

    protocol = replace(ROUNDS, rounds=1)
    federation = Federation(Alone(kind.Params(draws=DRAWS)), trajectory_problem().task(protocol), protocol, 0)
    return federation.start(), federation.run(federation.start())


@pytest.mark.parametrize(
    ("kind", "step", "moves"),
    [
        (RCGAN, "discriminator", ("discriminator",)),
        (RCGAN, "generator", ("generator",)),
        (TimeGAN, "discriminator", ("discriminator",)),
        (TimeGAN, "generator", ("generator", "supervisor")),
        (TimeGAN, "embedding", ("embedder", "recovery")),
    ],
)
def test_a_net_s_step_leaves_all_others_as_they_are_to_the_bit(
    kind: type[Method], step: str, moves: tuple[str, ...]
) -> None:
    before, after = only(kind, step)
    sent = {client: value for _, client, quantity, value in after.log if quantity == "bytes_up"}
    took_part = torch.tensor([value > 0 for value in sent.values()])
    assert 0 < int(took_part.sum()) < len(took_part)
    for name, value in before.server.items():
        moved = (after.params[name][took_part] != value).flatten(1).any(1)
        assert bool(moved.all() if name.startswith(moves) else not moved.any()), name


@KINDS
def test_all_weights_travel_and_four_bytes_are_charged_for_each(kind: type[Method]) -> None:
    federation, state = trained(kind)
    assert set(state.server) == set(state.params)
    sent = {value for _, _, quantity, value in state.log if quantity == "bytes_up"}
    assert sent == {0.0, 4.0 * federation.parameters}


def test_sizes_on_a_world_of_fifty_items_are_those_of_the_published_widths() -> None:
    """RCGAN of 100 units: about 102,700; TimeGAN of 24 and 64 about 50,500 and 342,000, without its codes of actions.

    Ours has a second bias a gate, as torch's layers do, and is told X and the actions: a little more.
    """
    task = trajectory_problem().task(ROUNDS)
    arrays = task.arrays._replace(x=torch.zeros(90, 4), a=torch.zeros(90, 6, 1))
    task = replace(task, actions=50, arrays=arrays, binary=torch.zeros(1, dtype=torch.bool))

    def size(method: Method) -> int:
        return sum(p.numel() for p in method.client(task).parameters())

    tables = 51 * 16
    assert size(RCGAN(RCGAN.Params(hidden=100))) - tables == pytest.approx(102_700, rel=0.01)
    assert size(TimeGAN()) - 3 * tables == pytest.approx(50_500, rel=0.07)
    assert size(TimeGAN(TimeGAN.Params(hidden=64))) - 3 * tables == pytest.approx(342_000, rel=0.03)


@KINDS
def test_step_by_step_a_generator_draws_what_it_draws_whole(kind: type[Method]) -> None:
    model, batch = one_client(kind)
    z = noise(kind, len(batch.t), LONGEST)

    def whole(net: FiveNets) -> Tensor:
        if kind is RCGAN:
            return net.generated(batch, z)
        latent = net.supervised(batch, net.proposed(batch, torch.special.ndtr(z))[None])[0]
        return net.recovered(batch, latent)

    def stepwise(net: FiveNets) -> Tensor:
        state, drawn = net.begin(z[:, 0]), []
        for step in range(LONGEST):
            state, seen = net.advance(state, net.told(batch), batch.t[:, step], z[:, step])
            drawn.append(seen)
        return torch.stack(drawn, 1)

    torch.testing.assert_close(model(method=stepwise), model(method=whole))


@KINDS
def test_draws_depend_on_their_noise_and_on_nothing_that_was_logged_but_x_and_actions(kind: type[Method]) -> None:
    model, batch = one_client(kind)
    answers = trained(kind)[0].method.answers
    luck = torch.full(batch.t.shape, 0.5, dtype=torch.float64)
    first, second = (answers.generate(model, batch, noise(kind, *batch.t.shape, seed=s), luck, luck).a for s in (1, 2))
    assert (first != second).any()
    other = batch._replace(a=batch.a + 1, y=1 - batch.y)
    again = answers.generate(model, other, noise(kind, *batch.t.shape), luck, luck)
    assert torch.equal(again.a, first)
    assert torch.equal(again.t, batch.t)
    assert torch.equal(again.x, batch.x)
    assert set(again.y[batch.mask > 0].tolist()) <= {0.0, 1.0}


@KINDS
def test_a_potential_is_the_mean_draw_after_the_logged_actions_with_the_asked_one_at_the_step(
    kind: type[Method],
) -> None:
    model, batch = one_client(kind)
    answers = trained(kind)[0].method.answers
    z = noise(kind, len(batch.t), DRAWS, LONGEST)
    actions = torch.tensor([0, 2])
    potentials = answers.potentials(model, batch, actions, z)
    for step in (0, 3):
        for column, action in enumerate(actions):
            asked = batch.t.clone()
            asked[:, step] = action
            asked[:, step + 1 :] = (asked[:, step + 1 :] + 1) % ACTIONS  # what comes after a step plays no part
            logits = answers.predict(model, batch._replace(t=asked), Moment({}, {"potentials": z}))
            torch.testing.assert_close(potentials[:, step, column], torch.sigmoid(logits[:, step]))


@KINDS
def test_a_simulation_follows_the_log_before_its_window_and_the_plan_inside(kind: type[Method]) -> None:
    model, batch = one_client(kind)
    answers = trained(kind)[0].method.answers
    first, z = 2, noise(kind, len(batch.t), DRAWS, LONGEST)
    luck = torch.zeros(len(batch.t), DRAWS, LONGEST, dtype=torch.float64)
    plans = torch.stack([batch.t[:, first:], (batch.t[:, first:] + 1) % ACTIONS])
    found = answers.simulate(model, batch, plans, first, z, luck)
    for plan, drawn in zip(plans, found, strict=True):
        followed = batch._replace(t=torch.cat([batch.t[:, :first], plan], 1))
        logits = answers.predict(model, followed, Moment({}, {"potentials": z}))
        torch.testing.assert_close(drawn.mean(1).clamp(1e-3, 1 - 1e-3), torch.sigmoid(logits[:, first:]))
    before = batch._replace(t=torch.cat([(batch.t[:, :first] + 1) % ACTIONS, batch.t[:, first:]], 1))
    assert (answers.simulate(model, before, plans, first, z, luck) != found).any()


@KINDS
def test_a_world_has_noise_for_the_steps_before_a_window_and_gives_the_same_whatever_is_asked_at_once(
    kind: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    federation, state = trained(kind)
    world = World(federation.method, federation.skeleton, federation.weights(state), federation.task)
    plans, units = torch.tensor([[0] * 3, [1] * 3]), torch.arange(len(federation.task.units))
    together, order = world.simulate("test", plans, 3, 4, units)
    monkeypatch.setattr("fedloom.federation.worlds.STEPS_AT_ONCE", 8 * len(federation.task.ids) * LONGEST)
    few, other = world.simulate("test", plans, 3, 4, units)
    torch.testing.assert_close(together[..., order.argsort()], few[..., other.argsort()])


@KINDS
def test_padding_has_no_influence_on_any_loss(kind: type[Method]) -> None:
    federation, _ = trained(kind)
    model, batch = one_client(kind)
    there = batch.mask > 0
    poisoned = batch._replace(y=torch.where(there, batch.y, 0.7), a=torch.where(there[..., None], batch.a, 2.0))
    for phase in ("embed", "supervise", "joint") if kind is TimeGAN else ("train",):
        for step in federation.method.steps(Phase(phase)):
            shapes = {"z": NOISE[kind.name], "real": 3, "blur": 3}
            drawn = {
                n: torch.rand(*batch.t.shape, shapes[n], generator=torch.Generator().manual_seed(3)).double()
                for n in step.noise
            }
            losses = [step.loss(model, b, Moment({}, drawn)).loss for b in (batch, poisoned)]
            torch.testing.assert_close(*losses)


def test_moments_apart_are_those_of_each_step_s_sequences_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timegan, "LEAST", 20)
    random = np.random.default_rng(0)
    drawn, real = random.random((40, 5, 3)), random.random((40, 5, 3))
    mask = np.arange(5) < random.integers(2, 6, (40, 1))
    apart = []
    for step in range(5):
        there = mask[:, step]
        if there.sum() < 20:
            continue
        a, b = drawn[there, step], real[there, step]
        sd = abs(np.sqrt(a.var(0) + 1e-6) - np.sqrt(b.var(0) + 1e-6))
        apart.append(abs(a.mean(0) - b.mean(0)) + sd)
    assert 0 < len(apart) < 5
    found = timegan._moments_apart(*(torch.from_numpy(v.astype(float)) for v in (drawn, real, mask)))
    assert float(found) == pytest.approx(np.mean(apart))


def test_stages_follow_the_rounds_and_only_the_last_may_be_chosen() -> None:
    method = TimeGAN()
    names = [method.phases(round_, 10)[0].name for round_ in range(10)]
    assert names == ["embed"] * 2 + ["supervise"] * 2 + ["joint"] * 6
    assert [method.selectable(round_, 10) for round_ in range(10)] == [False] * 4 + [True] * 6


def test_the_discriminator_rests_where_it_wins() -> None:
    gates = {step.name: step.above for step in TimeGAN().steps(Phase("joint"))}
    assert gates == {"discriminator": 0.15, "generator": None, "embedding": None}


@KINDS
def test_the_contest_is_logged_round_by_round(kind: type[Method]) -> None:
    _, state = trained(kind)
    logged = {(quantity, r): v for r, client, quantity, v in state.log if client == "all"}
    assert 0 <= logged["accuracy_of_d", 4] <= 1
    assert logged["gradient_of_d", 4] > 0
    assert logged["gradient_of_g", 4] > 0


@KINDS
def test_rounds_are_chosen_by_how_far_what_is_drawn_is_from_what_was_logged(kind: type[Method]) -> None:
    """Gretton et al. 2012, Eq. 4, pair by pair, a mean over clients by their sequences."""
    federation, state = trained(kind)
    task, weights = federation.task, federation.weights(state)
    made, at = World(federation.method, federation.skeleton, weights, task).generate("validation")
    scale = Drawn(task)
    real, drawn = (
        (scale(each) * each.mask[..., None]).flatten(1).numpy()
        for each in (Trajectories(*(values[at] for values in task.arrays)), made)
    )
    apart = []
    for members in task.rows["validation"]:
        rows = np.flatnonzero(np.isin(at, members[members >= 0]))
        if len(rows) < 2:
            continue
        square = {(i, j): ((real[i] - real[j]) ** 2).sum() for i in rows for j in rows if i != j}
        median = np.sort(list(square.values()))[(len(square) - 1) // 2]

        def kernel(a: np.ndarray, b: np.ndarray, median: float = median) -> float:
            scales = (0.25, 0.5, 1, 2, 4)
            return float(np.mean([np.exp(-((a - b) ** 2).sum() / (2 * scale * median)) for scale in scales]))

        pairs = [
            kernel(real[i], real[j]) + kernel(drawn[i], drawn[j]) - 2 * kernel(real[i], drawn[j]) for i, j in square
        ]
        apart.append((np.mean(pairs), len(rows)))
    expected = np.average([a for a, _ in apart], weights=[n for _, n in apart])
    assert federation.validate(weights).score == pytest.approx(expected, rel=1e-9)
    scores = {r: v for r, _, quantity, v in state.log if quantity == "validation_score"}
    assert scores[4] == pytest.approx(expected, rel=1e-9)
    allowed = {r: v for r, v in scores.items() if federation.method.selectable(r, ROUNDS.rounds)}
    assert state.best.round == min(allowed, key=lambda r: allowed[r])


def test_clients_with_one_sequence_to_compare_have_no_score_and_the_others_have() -> None:
    federation, state = trained(RCGAN)
    rows = federation.task.rows["validation"].clone()
    rows[0, 1:] = -1
    rows[1] = -1
    few = replace(federation.task, rows=federation.task.rows | {"validation": rows})
    looked = federation.method.validated(few, federation.skeleton, federation.weights(state))
    assert looked is not None
    apart = looked.log["validation_mmd"]
    assert isinstance(apart, Tensor)
    assert torch.isnan(apart).tolist() == ((rows >= 0).sum(1) < 2).tolist()
    assert not torch.isnan(apart).all()
    assert np.isfinite(looked.score)
    rows[2:, 1:] = -1
    with pytest.raises(InputError, match="at least 2 sequences, found none"):
        federation.method.validated(few, federation.skeleton, federation.weights(state))


@pytest.mark.parametrize("bounded", [True, False])
def test_a_score_with_a_bound_may_grow_by_any_factor_and_another_ends_the_run(bounded: bool) -> None:
    class Judged(RCGAN):
        name = "judged"

        def validated(self, task: object, skeleton: nn.Module, weights: Tensors) -> Validation:
            self.looks = getattr(self, "looks", 0) + 1
            return Validation(1e-3 if self.looks == 1 else 0.5, {}, bounded=bounded)

    federation = Federation(Judged(RCGAN.Params(draws=DRAWS)), trajectory_problem().task(ROUNDS), ROUNDS, 0)
    state = federation.run(federation.start())
    assert (state.diverged is None) == bounded
    assert state.best.round == 0
