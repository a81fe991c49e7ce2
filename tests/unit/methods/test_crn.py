"""CRN: what its representation hides, what its decoder sees, what it sends, and what it answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fedloom.check.problems import ACTIONS, CLIENTS, LONGEST, PROTOCOL, trajectory_problem
from fedloom.federation.method import Moment
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.trajectory import Trajectories
from fedloom.federation.worlds import World
from fedloom.methods.crn import CRN
from fedloom.models.layers.balanced import BalancedLSTM

ROUNDS = replace(PROTOCOL, rounds=4)


@cache
def trained() -> tuple[Federation, State]:
    federation = Federation(CRN(CRN.Params(starts=3)), trajectory_problem().task(ROUNDS), ROUNDS, 0)
    return federation, federation.run(federation.start())


def one_client() -> tuple[Bound, Trajectories]:
    federation, state = trained()
    task = federation.task
    batch = task.batch("train", torch.tensor([0]), torch.arange(int(task.sizes("train")[0]))[None])
    weights = {n: w[0] for n, w in federation.weights(state).items()}
    return Bound(federation.skeleton, weights), Trajectories(*(part[0] for part in batch))


def test_the_action_head_learns_what_the_representation_unlearns() -> None:
    net = BalancedLSTM(4, 6, 5, 7, 3, 2).double()
    balanced = torch.randn(20, 5, dtype=torch.float64, requires_grad=True)
    group = torch.randint(0, 2, (20,), generator=torch.Generator().manual_seed(0))

    def nats(strength: float) -> torch.Tensor:
        return cross_entropy(net.chosen(balanced, strength), group)

    head = net.action_inner.weight
    for_head, for_state = torch.autograd.grad(nats(1.0), [head, balanced])
    same_head, hidden = torch.autograd.grad(nats(-1.0), [head, balanced])
    torch.testing.assert_close(for_head, same_head)
    torch.testing.assert_close(for_state, -hidden)


def test_the_stronger_the_reversal_the_less_a_representation_tells_of_the_action() -> None:
    """A context decides the action and bears on the outcome. Told apart: the actions' mean representations, in sd."""
    generator = torch.Generator().manual_seed(5)
    a = torch.randn(200, 2, generator=generator)
    action = (a[:, 0] + 0.3 * torch.randn(200, generator=generator) > 0).long()
    y = (a[:, 1] + 0.5 * a[:, 0] + torch.randn(200, generator=generator) > 0).float()
    u, start, code = a[:, None], torch.zeros(200, 8), torch.eye(2)[action]

    def told_apart(strength: float) -> float:
        with torch.random.fork_rng():
            torch.manual_seed(2)
            net = BalancedLSTM(2, 8, 4, 8, 2, 2)
        whole = torch.optim.Adam(net.parameters(), 0.01)
        reader = torch.optim.Adam([p for n, p in net.named_parameters() if n.startswith("action_")], 0.01)
        for _ in range(100):
            balanced = net(u, start, None, None)[:, 0]
            for _ in range(5):  # the head keeps up, so that the reversed gradient points where it should
                reader.zero_grad()
                cross_entropy(net.chosen(balanced.detach(), 0.0), action).backward()
                reader.step()
            whole.zero_grad()
            outcome = binary_cross_entropy_with_logits(net.outcome(balanced, code), y)
            (outcome + cross_entropy(net.chosen(balanced, strength), action)).backward()
            whole.step()
        balanced = balanced.detach()
        apart = balanced[action == 1].mean(0) - balanced[action == 0].mean(0)
        return float(apart.norm() / balanced.std(0).norm())

    assert told_apart(1.0) < told_apart(0.0) < told_apart(-1.0)


def test_the_representation_of_a_step_knows_neither_its_action_nor_what_comes_after() -> None:
    model, batch = one_client()
    step, balanced = 2, model(batch, method="encode")
    later = batch._replace(t=batch.t.clone(), y=batch.y.clone(), a=batch.a.clone())
    later.t[:, step:] = (later.t[:, step:] + 1) % ACTIONS
    later.y[:, step:] = 1 - later.y[:, step:]
    later.a[:, step + 1 :] += 5
    changed = model(later, method="encode")
    assert torch.equal(balanced[:, : step + 1], changed[:, : step + 1])
    assert (balanced[:, step + 1 :] != changed[:, step + 1 :]).any()


def test_a_plan_is_foretold_without_the_outcomes_and_contexts_that_follow_its_start() -> None:
    model, batch = one_client()
    method, first = trained()[0].method, 2
    plans = torch.randint(0, 2, (3, len(batch.t), LONGEST - first), generator=torch.Generator().manual_seed(3))
    luck = torch.zeros(len(batch.t), 2, LONGEST - first, dtype=torch.float64)
    told = method.simulate(model, batch, plans, first, luck, luck)
    later = batch._replace(t=batch.t.clone(), y=batch.y.clone(), a=batch.a.clone())
    later.t[:, first:], later.y[:, first:] = 0, 1 - later.y[:, first:]
    later.a[:, first + 1 :] = 9.0
    assert torch.equal(told, method.simulate(model, later, plans, first, luck, luck))
    earlier = batch._replace(y=batch.y.clone())
    earlier.y[:, first - 1] = 1 - earlier.y[:, first - 1]
    assert (told != method.simulate(model, earlier, plans, first, luck, luck)).any()


def test_a_later_action_moves_no_earlier_outcome() -> None:
    model, batch = one_client()
    method, luck = trained()[0].method, torch.zeros(1, 1, LONGEST, dtype=torch.float64)
    luck = luck.expand(len(batch.t), 1, LONGEST)
    plan = torch.zeros(1, len(batch.t), LONGEST, dtype=torch.int64)
    other = plan.clone()
    other[..., 3:] = 1
    one, two = (method.simulate(model, batch, p, 0, luck, luck) for p in (plan, other))
    assert torch.equal(one[..., :3], two[..., :3])
    assert (one[..., 3:] != two[..., 3:]).all()


def test_a_plan_of_one_step_is_the_potential_of_its_action() -> None:
    model, batch = one_client()
    method, luck = trained()[0].method, torch.zeros(len(batch.t), 1, 1, dtype=torch.float64)
    potentials = method.potentials(model, batch, torch.tensor([0, 1]), luck)
    for action in (0, 1):
        plan = torch.full((1, len(batch.t), 1), action)
        torch.testing.assert_close(
            method.simulate(model, batch, plan, 1, luck, luck)[0, :, 0, 0], potentials[:, 1, action]
        )


def test_padding_has_no_influence_on_either_loss() -> None:
    method = trained()[0].method
    model, batch = one_client()
    poisoned = batch._replace(
        y=torch.where(batch.mask > 0, batch.y, 7.0), a=torch.where(batch.mask[..., None] > 0, batch.a, 9.0)
    )
    generator = torch.Generator().manual_seed(1)
    for loss, lead, width in ((method.encoding, (), 64), (method.decoding, (3,), 32)):
        shape = (len(batch.t), *lead, width)
        noise = {n: torch.rand(shape, generator=generator, dtype=torch.float64) for n in ("state", "output")}
        noise["start"] = torch.rand(len(batch.t), 3, generator=generator, dtype=torch.float64)
        clean, other = (loss(model, given, Moment({}, noise, None, 0.8)).loss for given in (batch, poisoned))
        torch.testing.assert_close(clean, other)


def test_clients_send_the_encoder_first_and_then_the_decoder_while_the_encoder_rests() -> None:
    federation = Federation(CRN(), trajectory_problem().task(ROUNDS), ROUNDS, 0)
    state = federation.start()
    size = {
        half: 4 * sum(p.numel() for n, p in federation.skeleton.named_parameters() if n.startswith(half))
        for half in ("encoder", "decoder")
    }
    for round_, half in enumerate(("encoder", "encoder", "decoder", "decoder")):
        before = {n: t.clone() for n, t in state.server.items()}
        federation.step(state)
        moved = {n.split(".")[0] for n, t in state.server.items() if not torch.equal(t, before[n])}
        assert moved == {half}
        sent = {v for r, _, quantity, v in state.log if (r, quantity) == (round_, "bytes_up")}
        assert sent - {0.0} == {size[half]}


def test_synthetic_sequences_keep_all_but_the_outcomes() -> None:
    federation, state = trained()
    world = World(federation.method, federation.skeleton, federation.weights(state), federation.task)
    made, at = world.generate("train")
    real_batch = Trajectories(*(values[at] for values in federation.task.arrays))
    for name in ("x", "x_code", "a", "t", "mask"):
        assert torch.equal(getattr(made, name), getattr(real_batch, name))
    inside = made.mask > 0
    assert set(made.y[inside].tolist()) == {0.0, 1.0}
    assert (made.y != real_batch.y)[inside].any()


@pytest.mark.parametrize("hidden", [3, 8])
def test_the_recurrence_is_torchs_lstm(hidden: int) -> None:
    net = BalancedLSTM(5, hidden, 4, 6, 3, 2).double()
    reference = torch.nn.LSTM(5, hidden, batch_first=True).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(reference, f"{name}_l0").data.copy_(getattr(net, name).data)
    generator = torch.Generator().manual_seed(2)
    u = torch.randn(3, 7, 5, generator=generator, dtype=torch.float64)
    start = torch.randn(3, hidden, generator=generator, dtype=torch.float64)
    states = reference(u, (start[None], start[None]))[0]
    torch.testing.assert_close(net(u, start, None, None), net.represent(states))


def test_parameters_are_those_of_the_layers_written_down() -> None:
    """Inputs X 2, action 4, outcome 1, for the encoder also contexts 2; states 64 and 32; seven groups of actions."""

    def half(inputs: int, hidden: int, balanced: int) -> int:
        recurrent = 4 * hidden * (inputs + hidden + 2)
        heads = hidden * balanced + balanced + (balanced + 4) * 64 + 64 + 65 + balanced * 64 + 64 + 64 * 7 + 7
        return recurrent + heads

    assert trained()[0].parameters == half(9, 64, 32) + half(7, 32, 32)
    assert len(trained()[0].task.ids) == CLIENTS
