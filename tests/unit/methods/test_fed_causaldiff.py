"""Fed-CausalDiff: what is read from where, what is shared, what stays home, and what a trained world answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from fedloom.check.problems import ACTIONS, CLIENTS, LONGEST, PROTOCOL, trajectory_problem
from fedloom.federation.method import Clients, Moment, Outcome, Uploads
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound
from fedloom.federation.worlds import World
from fedloom.methods.fed_causaldiff import FedCausalDiff

LOCAL = ("confounding_score", "behaviour", "group_of_causal", "group_of_confounding")
ROUNDS = replace(PROTOCOL, rounds=5, participation=0.5)


@cache
def trained(sharing: str = "selective") -> tuple[Federation, State]:
    federation = Federation(
        FedCausalDiff(FedCausalDiff.Params(sharing=sharing)), trajectory_problem().task(ROUNDS), ROUNDS, 0
    )
    return federation, federation.run(federation.start())


def world() -> World:
    federation, state = trained()
    return World(federation.method, federation.skeleton, federation.weights(state), federation.task)


def one_client(client: int = 0) -> tuple[Bound, tuple]:
    federation, state = trained()
    task = federation.task
    weights = {n: w[client] for n, w in federation.weights(state).items()}
    numbers = torch.arange(int(task.sizes("train")[client]))[None]
    batch = task.batch("train", torch.tensor([client]), numbers)
    return Bound(federation.skeleton, weights), type(batch)(*(part[0] for part in batch))


def test_the_latent_of_a_step_knows_neither_its_action_nor_what_comes_after() -> None:
    model, batch = one_client()
    latent = model(batch, method="encode")
    step = 2
    later = batch._replace(t=batch.t.clone(), y=batch.y.clone(), a=batch.a.clone())
    later.t[:, step:] = (later.t[:, step:] + 1) % ACTIONS
    later.y[:, step:] = 1 - later.y[:, step:]
    later.a[:, step + 1 :] += 5
    changed = model(later, method="encode")
    assert torch.equal(latent[:, : step + 1], changed[:, : step + 1])
    assert (latent[:, step + 1 :] != changed[:, step + 1 :]).any()


def test_padding_has_no_influence_on_any_loss() -> None:
    federation, _ = trained()
    model, batch = one_client()
    poisoned = batch._replace(
        y=torch.where(batch.mask > 0, batch.y, 7.0), a=torch.where(batch.mask[..., None] > 0, batch.a, 9.0)
    )
    shape = (len(batch.t), 8)
    noise = {
        n: torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        for n in ("pick", "level", "other")
    }
    noise["noise"] = torch.randn(*shape, 48, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    noise["row"] = noise["pick"][:, :1]

    def loss(kind: str, given: tuple) -> Outcome:
        return getattr(federation.method.model, kind)(model, given, Moment({}, noise, None, 0.5))

    for kind in ("representation", "dynamics", "refinement"):
        clean, other = loss(kind, batch), loss(kind, poisoned)
        torch.testing.assert_close(clean.loss, other.loss)
        for name, value in clean.buffers.items():
            torch.testing.assert_close(value, other.buffers[name])


@pytest.mark.parametrize("sharing", ["selective", "full"])
def test_bytes_are_four_for_every_shared_number_of_the_clients_that_took_part(sharing: str) -> None:
    _, state = trained(sharing)
    shared = [n for n in [*state.params, *state.buffers] if sharing == "full" or not n.startswith(LOCAL)]
    numbers = sum((state.params | state.buffers)[n][0].numel() for n in shared)
    for round_ in range(ROUNDS.rounds):
        sent = [v for r, _, quantity, v in state.log if quantity == "bytes_up" and r == round_]
        assert set(sent) == {0.0, 4.0 * numbers}
        assert sum(v > 0 for v in sent) == 2  # half of the four clients that have training sequences


def test_confounding_parts_never_leave_a_client_and_causal_parts_are_one() -> None:
    federation, state = trained()
    assert not any(name.startswith(LOCAL) for name in state.server)
    weights = federation.weights(state)
    for name, value in weights.items():
        alike = bool((value == value[:1]).all())
        assert alike != name.startswith(LOCAL) or value[0].numel() == value.abs().max() == 0, name


def test_what_is_uploaded_is_weights_and_moments_alone_and_knows_no_propensity() -> None:
    """No latent of a sequence and no row of a log: nothing that grows with the data or moves with propensities."""
    _, state = trained()
    uploaded = {n: tuple(t.shape) for n, t in state.server.items()}
    moments = {f"{of}_{kind}" for of in ("latent", "change") for kind in ("mean", "square")}
    assert uploaded.keys() <= state.params.keys() | moments
    given = trajectory_problem()
    logged = given.table.table.assign(propensity=[0.01 + 0.9 * p for p in given.table.table["propensity"]])
    other = replace(given, table=replace(given.table, table=logged))
    again = Federation(FedCausalDiff(), other.task(ROUNDS), ROUNDS, 0)
    server = again.run(again.start()).server
    assert all(torch.equal(value, state.server[name]) for name, value in server.items())
    twice = Federation(FedCausalDiff(), given.pick([0, 1]).task(ROUNDS), ROUNDS, 0)
    assert {n: tuple(t.shape) for n, t in twice.start().server.items()} == uploaded


def test_without_selective_sharing_only_the_share_list_differs() -> None:
    one, other = trained()[0], trained("full")[0]
    assert one.parameters == other.parameters
    assert set(other.start().server) - set(one.start().server) == {
        n for n in [*one.start().params, *one.start().buffers] if n.startswith(LOCAL)
    }


def test_the_score_is_the_sum_of_a_part_that_sees_the_action_and_one_that_does_not() -> None:
    federation, state = trained()
    for name in ("confounding_score", "causal_score"):
        assert any(n.startswith(name) for n in state.params)
    module = federation.skeleton
    inputs = {n: p.shape[1] for n, p in module.named_parameters() if n.endswith("score.enter.weight")}
    w = module.widths
    assert inputs["confounding_score.enter.weight"] == w.latent + w.confounding + w.level + 2 * w.code


def test_answers_do_not_depend_on_how_many_sequences_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = torch.tensor([[0] * 3, [1] * 3])
    units = torch.arange(len(world().task.units))
    together, order = world().simulate("test", plans, 3, 4, units)
    monkeypatch.setattr("fedloom.federation.worlds.STEPS_AT_ONCE", 8 * CLIENTS * LONGEST)
    few, other = world().simulate("test", plans, 3, 4, units)
    torch.testing.assert_close(together[..., order.argsort()], few[..., other.argsort()])


def test_policies_share_their_noise() -> None:
    plans = torch.tensor([[0, 1, 2], [0, 1, 2]])
    values, _ = world().simulate("test", plans, 3, 5, torch.arange(len(world().task.units)))
    torch.testing.assert_close(values[:, 0], values[:, 1])
    assert values.std(0).max() > 0


def test_the_first_simulated_step_is_the_potential_outcome_at_the_logged_history() -> None:
    asked = world()
    anchors = torch.tensor(asked.task.anchors)
    potentials, places = asked.potentials("test", anchors)
    step = 1
    values, at = asked.simulate("test", anchors[:, None], step, 3, places)
    row = {int(p): i for i, p in enumerate(places)}
    for column, place in enumerate(at.tolist()):
        torch.testing.assert_close(values[0, :, column], potentials[row[place], step, :2])


def test_synthetic_sequences_keep_static_features_and_length_and_draw_the_rest() -> None:
    made, _ = world().generate("train")
    assert ((made.t < ACTIONS) == (made.mask > 0)).all()
    assert set(made.y[made.mask > 0].tolist()) <= {0.0, 1.0}


def uploaded(federation: Federation, state: State, positions: list[int], shift: torch.Tensor) -> Uploads:
    """What clients send whose latents' moments, and causal scores, differ by what ``shift`` adds to them."""
    own = torch.tensor(positions)
    clients = Clients(own, torch.ones(len(own), dtype=torch.int64), _of(state.params, own), _of(state.buffers, own), {})
    sent = federation.method.upload(clients)
    for name in ("change_mean", "causal_score.leave.bias"):
        sent[name] = sent[name] * 0 + shift[own][:, None]
    return Uploads(own, clients.weights, sent)


def _of(tensors: dict[str, torch.Tensor], rows: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: values[rows].clone() for name, values in tensors.items()}


def test_clusters_share_the_causal_score_among_those_whose_latents_move_alike() -> None:
    method = FedCausalDiff(FedCausalDiff.Params(clusters=2))
    federation = Federation(method, trajectory_problem().task(ROUNDS), ROUNDS, 0)
    state = federation.start()
    shift = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    server = method.aggregate(state.server, uploaded(federation, state, [0, 1, 2], shift))
    assert server["cluster_of"][[3, 4]].tolist() == [-1, -1]
    everyone = federation._everyone(state)
    received = method.download(server, everyone)["causal_score.leave.bias"].mean(1)
    torch.testing.assert_close(received[:3], shift[:3])
    torch.testing.assert_close(received[3:], shift[:3].mean().expand(2))  # not heard of yet: the mean of all
    server = method.aggregate(server, uploaded(federation, state, [3, 4], shift))
    torch.testing.assert_close(method.download(server, everyone)["causal_score.leave.bias"].mean(1), shift)
    shared = method.download(server, everyone)["outcome.inner.weight"]
    assert (shared == shared[:1]).all()


def test_one_cluster_is_the_plain_sharing_rule() -> None:
    one, plain = (
        Federation(FedCausalDiff(params), trajectory_problem().task(ROUNDS), ROUNDS, 0)
        for params in (FedCausalDiff.Params(clusters=1), FedCausalDiff.Params())
    )
    assert one.start().server.keys() == plain.start().server.keys()
    assert not any(name.startswith("of_clusters") for name in one.start().server)
