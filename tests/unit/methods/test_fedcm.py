"""FedCM: its critics' penalty, what its mechanisms read and draw, what is shared, what stays home."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

from fedloom.check.problems import ACTIONS, LONGEST, PROTOCOL, trajectory_problem
from fedloom.federation.method import Moment
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.trajectory import Trajectories
from fedloom.federation.worlds import World
from fedloom.methods.fedcm import FedCM
from fedloom.models.layers.mechanisms import Critic, slopes, softened, softened_binary

ROUNDS = replace(PROTOCOL, rounds=3)


@cache
def trained() -> tuple[Federation, State]:
    federation = Federation(FedCM(FedCM.Params(lr=1e-3)), trajectory_problem().task(ROUNDS), ROUNDS, 0)
    return federation, federation.run(federation.start())


def one_client() -> tuple[Bound, Trajectories]:
    federation, state = trained()
    task = federation.task
    batch = task.batch("train", torch.tensor([0]), torch.arange(int(task.sizes("train")[0]))[None])
    weights = {n: w[0] for n, w in federation.weights(state).items()}
    return Bound(federation.skeleton, weights), Trajectories(*(part[0] for part in batch))


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_slope_of_a_linear_critic_is_the_norm_of_its_weights() -> None:
    critic = Critic(3, 5).double()
    with torch.no_grad():  # so far above zero that no unit bends
        critic.first.bias.fill_(1e3)
        critic.second.bias.fill_(1e5)
    direction = critic.last.weight @ critic.second.weight @ critic.first.weight
    found = slopes(critic, rows(7, 3), rows(7, 3, seed=1), torch.linspace(0, 1, 7, dtype=torch.float64))
    torch.testing.assert_close(found, direction.norm().expand(7))


def test_the_critics_gradient_written_out_is_autograds_and_so_is_what_it_teaches() -> None:
    critic, row = Critic(4, 6).double(), rows(9, 4).requires_grad_()
    (by_row,) = torch.autograd.grad(critic(row).sum(), row, create_graph=True)
    written = critic.gradient(row)
    torch.testing.assert_close(written, by_row)
    weights = [critic.first.weight, critic.second.weight, critic.last.weight]
    for one, other in zip(
        torch.autograd.grad((by_row.norm(dim=1) - 1).square().mean(), weights),
        torch.autograd.grad((written.norm(dim=1) - 1).square().mean(), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_penalised_critics_reach_slope_one_and_the_distance_of_two_points() -> None:
    """Of two points the Wasserstein distance is theirs, and the best critic climbs from one to the other at slope 1."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        critic = Critic(2, 32)
    real, drawn = torch.tensor([[0.0, 0.0]]).expand(64, 2), torch.tensor([[0.6, 0.8]]).expand(64, 2)
    optimiser = torch.optim.Adam(critic.parameters(), 0.003, betas=(0.5, 0.9))
    for _ in range(400):
        optimiser.zero_grad()
        slope = slopes(critic, real, drawn, torch.rand(64, generator=torch.Generator().manual_seed(1)))
        ((critic(drawn) - critic(real)).mean() + 10 * (slope - 1).square().mean()).backward()
        optimiser.step()
    gap = float((critic(real) - critic(drawn)).mean().detach())
    assert abs(gap - 1) < 0.15
    assert abs(float(slope.mean().detach()) - 1) < 0.1


def test_softened_draws_are_draws_of_the_probabilities_that_logits_give() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.tensor([0.3, -1.0, 1.2], dtype=torch.float64)
    uniform = torch.rand(20000, 3, generator=generator, dtype=torch.float64)
    shares = softened(logits.expand(20000, 3), uniform, 0.2).argmax(1).bincount() / 20000
    torch.testing.assert_close(shares.double(), logits.softmax(0), atol=0.015, rtol=0)
    ones = (softened_binary(logits[2].expand(20000), uniform[:, 0], 0.2) > 0.5).double().mean()
    torch.testing.assert_close(ones, torch.sigmoid(logits[2]), atol=0.015, rtol=0)


def test_the_summary_of_a_step_knows_only_what_came_before_it() -> None:
    model, batch = one_client()
    step, summary = 2, model(batch, method="summaries")
    later = batch._replace(t=batch.t.clone(), y=batch.y.clone(), a=batch.a.clone())
    later.t[:, step:], later.y[:, step:] = (later.t[:, step:] + 1) % ACTIONS, 1 - later.y[:, step:]
    later.a[:, step:] += 5
    changed = model(later, method="summaries")
    assert torch.equal(summary[:, : step + 1], changed[:, : step + 1])
    assert (summary[:, step + 1 :] != changed[:, step + 1 :]).any()


def test_a_simulated_plan_follows_the_mechanisms_one_by_one() -> None:
    model, batch = one_client()
    method, first, width, draws = trained()[0].method, 2, LONGEST - 2, 3
    plans = torch.randint(0, ACTIONS, (2, len(batch.t), width), generator=torch.Generator().manual_seed(1))
    noise = rows(len(batch.t), draws, width, method.noise_width)
    luck = torch.rand(len(batch.t), draws, width, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    told = method.simulate(model, batch, plans, first, noise, luck)
    potentials = method.potentials(model, batch, torch.arange(ACTIONS), noise)
    at_first = potentials[:, first].gather(1, plans[..., 0].T).T
    torch.testing.assert_close(told[..., 0], at_first[..., None].expand(-1, -1, draws))
    one = method.simulate(model, batch, plans[:1], first, noise[:, :1], luck[:, :1])
    torch.testing.assert_close(one, told[:1, :, :1])
    later = batch._replace(y=batch.y.clone(), t=batch.t.clone())
    later.y[:, first:], later.t[:, first:] = 0, 0
    assert torch.equal(told, method.simulate(model, later, plans, first, noise, luck))


def test_a_clients_own_choice_of_actions_stays_home_and_all_else_is_averaged() -> None:
    state = trained()[1]
    for name, values in state.params.items():
        home = name.partition(".")[0] in ("action", "action_critic")
        assert (name in state.server) != home
        if home:
            assert not torch.equal(values[0], values[1])


def test_synthetic_actions_come_from_each_clients_own_choice() -> None:
    federation, state = trained()
    weights = {n: w.clone() for n, w in federation.weights(state).items()}
    weights["action.last.bias"][:] = torch.tensor([-1e3, 1e3, -1e3, -1e3])
    weights["action.last.bias"][2] = torch.tensor([-1e3, -1e3, -1e3, 1e3])
    made = World(federation.method, federation.skeleton, weights, federation.task).generate("train")[0]
    client = torch.repeat_interleave(torch.arange(5), federation.task.sizes("train"))
    for number in range(4):
        own = made.t[client == number][made.mask[client == number] > 0]
        assert set(own.tolist()) == {3 if number == 2 else 1}
    assert set(made.y[made.mask > 0].tolist()) <= {0.0, 1.0}


def test_padding_has_no_influence_on_either_loss() -> None:
    method = trained()[0].method
    model, batch = one_client()
    poisoned = batch._replace(
        y=torch.where(batch.mask > 0, batch.y, 7.0), a=torch.where(batch.mask[..., None] > 0, batch.a, 9.0)
    )
    generator, shape = torch.Generator().manual_seed(1), (len(batch.t), method.params.picks)
    noise = {
        name: torch.rand(*shape, *more, generator=generator, dtype=torch.float64)
        for name, more in (("pick", ()), ("mix", ()), ("z", (16,)), ("t", (ACTIONS,)), ("y", (1,)))
    }
    for loss in (method.criticising, method.generating):
        clean, other = (loss(model, given, Moment({}, noise)).loss for given in (batch, poisoned))
        torch.testing.assert_close(clean, other)


def test_every_round_logs_critics_and_the_shares_of_outcomes() -> None:
    quantities = {quantity for _, client, quantity, _ in trained()[1].log if client == "all"}
    logged = {f"{what}_of_{of}" for what in ("gap", "slope") for of in ("context", "action", "outcome")}
    assert logged | {"real_outcomes", "drawn_outcomes"} <= quantities


def test_parameters_are_those_of_the_layers_written_down() -> None:
    """X 2, contexts 2, actions 4; summary 32 of codes of 16; nets of two layers of 128, generators' normalised."""

    def net(inputs: int, outputs: int) -> int:
        return (inputs + 1) * 128 + 129 * 128 + 129 * outputs

    generators = net(34 + 16, 2) + net(36, 4) + net(40, 1) + 3 * 4 * 128
    critics = net(36, 1) + net(40, 1) + net(41, 1)
    summary = 5 * 16 + 3 * 32 * (2 + 16 + 1 + 32 + 2)
    assert trained()[0].parameters == generators + critics + summary
