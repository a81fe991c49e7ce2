"""Split training is the training of one network whose parts lie with different clients, and no more than that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import HISTORY, HORIZON, NAMES, PROTOCOL, problem
from fedloom.data.panels.panel import Panel, no_edges
from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation, State, predictor
from fedloom.federation.tasks.forecast import ForecastTask, forecast_task
from fedloom.methods.central_lstm import CentralLstm
from fedloom.methods.local_lstm import LocalLstm
from fedloom.methods.split_vfl import SplitVfl
from fedloom.methods.st_split_vfl import StSplitVfl
from fedloom.models.bilstm import BiLstm, channels

SMALL = {"k": 1, "code": 3, "hidden": 5, "pretrain_epochs": 0, "dropout": 0.0}
WHOLE = replace(PROTOCOL, batch=1000, train_stride=1)  # one step a round
B = NAMES.index("b")


def split(**params: object) -> StSplitVfl:
    return StSplitVfl(StSplitVfl.Params(**(SMALL | params)))


def train(method: Method, task: ForecastTask, protocol: Protocol = WHOLE) -> tuple[Federation, State]:
    federation = Federation(method, task, protocol, seed=0)
    return federation, federation.run(federation.start())


def everything(task: ForecastTask) -> tuple[tuple, Tensor]:
    rows = torch.arange(len(task.ids))
    return task.batch("train", rows, torch.arange(int(task.sizes("train")[0])).expand(len(rows), -1)), rows


def rows_that_differ(one: Tensor, other: Tensor) -> set[int]:
    return set((one != other).flatten(1).any(1).nonzero()[:, 0].tolist())


class Whole(nn.Module):
    """The same network in one place, from torch's own layers: a head an edge, a forecaster a client."""

    def __init__(self, state: State, edges: list[tuple[int, int]]) -> None:
        super().__init__()
        self.edges = edges
        self.heads = nn.ModuleList(nn.LSTM(3, 3, 2) for _ in edges)
        sizes = [sum(d == c for _, d in edges) for c in range(len(NAMES))]
        self.forecasters = nn.ModuleList(nn.LSTM(3 * size, 5, bidirectional=True) for size in sizes)
        self.outputs = nn.ModuleList(nn.Linear(10, HORIZON) for _ in NAMES)
        self.double()
        for client, size in enumerate(sizes):
            own = {n: p[client] for n, p in state.params.items()}
            for (source, _), head in zip(edges, self.heads, strict=True):
                if source == client:
                    head.load_state_dict({n: own[f"encoder.{n}"] for n in head.state_dict()})
            named = {n: own[f"forecaster.recurrent.{n}"] for n in self.forecasters[client].state_dict()}
            cut = {n: w[:, : 3 * size] if n.startswith("weight_ih") else w for n, w in named.items()}
            self.forecasters[client].load_state_dict(cut)
            self.outputs[client].load_state_dict({n: own[f"forecaster.output.{n}"] for n in ("weight", "bias")})

    def forward(self, x_CTBF: Tensor) -> Tensor:
        sent = [head(x_CTBF[source])[0] for (source, _), head in zip(self.edges, self.heads, strict=True)]
        forecasts = []
        for client, (forecaster, output) in enumerate(zip(self.forecasters, self.outputs, strict=True)):
            received = [z for z, (_, receiver) in zip(sent, self.edges, strict=True) if receiver == client]
            _, (final, _) = forecaster(torch.cat(received, -1))
            forecasts.append(output(torch.cat([final[0], final[1]], -1)))
        return torch.stack(forecasts)


def test_split_training_equals_the_same_network_in_one_place_step_by_step() -> None:
    task, method = problem(equal=True).task(), split(halve_every=2)
    federation = Federation(method, task, replace(WHOLE, rounds=5), seed=0)
    state = federation.start()
    edges = [(s, d) for s, d in method.edges(task).T.tolist()]
    assert sorted({sum(d == c for _, d in edges) for c in range(len(NAMES))}) == [2]
    assert len({sum(s == c for s, _ in edges) for c in range(len(NAMES))}) > 1
    whole = Whole(state, edges)
    adam = torch.optim.Adam(whole.parameters())
    batch, rows = everything(task)
    x_CTBF = channels(batch, task.slots_per_day).mT
    for step in range(federation.rounds):
        adam.param_groups[0]["lr"] = 1e-2 * 0.5 ** (step // 2)
        squared = (whole(x_CTBF) - batch.y).square() * batch.mask
        adam.zero_grad()
        (squared.sum((1, 2)) / batch.mask.sum((1, 2))).sum().backward()
        adam.step()
        federation.step(state)
        forecast = predictor(method, federation.skeleton, task, federation.weights(state))(batch, rows)
        torch.testing.assert_close(forecast, whole(x_CTBF).detach(), rtol=0, atol=1e-5)
    slot = dict.fromkeys(range(len(NAMES)), 0)
    for (source, _), head in zip(edges, whole.heads, strict=True):
        for name, parameter in head.named_parameters():
            trained = state.params[f"heads.{name}"][source, slot[source]]
            torch.testing.assert_close(trained, parameter.detach(), rtol=0, atol=1e-5)
        slot[source] += 1


def test_with_self_loops_alone_it_is_local_training() -> None:
    alone = {"graph": "threshold", "kilometres": 0.0, "pretrain_epochs": 2, "dropout": 0.1}
    given = problem(equal=True)
    _, together = train(split(**alone), given.task(PROTOCOL), PROTOCOL)
    assert {v for _, _, quantity, v in together.log if quantity.startswith("bytes")} == {0.0}
    for client in range(len(NAMES)):
        _, own = train(split(**alone), given.pick([client]).task(PROTOCOL), PROTOCOL)
        for name, value in own.params.items():
            torch.testing.assert_close(together.params[name][client], value[0], rtol=0, atol=1e-10)


def test_a_forecast_depends_on_the_data_of_those_it_hears_and_of_nobody_else() -> None:
    given, method = problem(equal=True), split()
    task = given.task()
    federation, state = train(method, task)
    predict = predictor(method, federation.skeleton, task, federation.weights(state))
    for client in range(len(NAMES)):
        other = given.disturbed(client).task()
        moved = rows_that_differ(predict(*everything(task)), predict(*everything(other)))
        assert moved == {d for s, d in method.edges(task).T.tolist() if s == client}
        assert len(moved) < len(NAMES)


def with_passive(task: ForecastTask, client: int = B) -> ForecastTask:
    wanted = task.wanted.clone()
    wanted[client] = False
    return replace(task, wanted=wanted)


def test_a_passive_client_receives_gradients_and_has_no_loss() -> None:
    task = with_passive(problem(equal=True).task())
    method = split()
    federation = Federation(method, task, WHOLE, seed=0)
    start, state = federation.start(), federation.run(federation.start())
    assert B not in method.edges(task)[1].tolist()
    assert B in method.edges(task)[0].tolist()
    encoder = start.params["encoder.weight_ih_l0"][B]
    assert (state.params["heads.weight_ih_l0"][B, 0] != encoder).any()
    for name in ("recurrent.weight_ih_l0", "output.weight"):
        assert torch.equal(state.params[f"forecaster.{name}"][B], start.params[f"forecaster.{name}"][B])
    losses = {client: v for _, client, quantity, v in state.log if quantity == "joint_loss"}
    assert losses["b"] == 0
    assert all(v > 0 for client, v in losses.items() if client != "b")
    held = method.parameters(task, federation.skeleton)
    assert held[B] == len(method.edges(task)[0][method.edges(task)[0] == B]) * (4 * 3 * 6 + 24 + 4 * 3 * 6 + 24)


def test_two_horizons_live_in_one_federation() -> None:
    whole = problem(equal=True).task()
    wanted = whole.wanted.clone()
    wanted[B, 2:] = False
    task, method = replace(whole, wanted=wanted), split()
    federation = Federation(method, task, WHOLE, seed=0)
    start, state = federation.start(), federation.run(federation.start())
    moved = (start.params["forecaster.output.weight"] != state.params["forecaster.output.weight"]).any(-1)
    assert moved.tolist() == wanted.tolist()
    batch, rows = everything(task)
    _, one_round = train(split(lr=0.0), task, replace(WHOLE, rounds=1))
    loss = next(v for _, client, quantity, v in one_round.log if client == "b" and quantity == "joint_loss")
    forecast = predictor(method, federation.skeleton, task, one_round.params)(batch, rows)
    squared = (forecast[B, :, :2] - batch.y[B, :, :2]).square() * batch.mask[B, :, :2]
    assert loss == pytest.approx(float(squared.sum() / batch.mask[B, :, :2].sum()))


def test_every_crossing_of_an_edge_is_charged_and_pre_training_is_not() -> None:
    task, method = problem(equal=True).task(), split(pretrain_epochs=2)
    protocol = replace(PROTOCOL, rounds=2)
    _, state = train(method, task, protocol)
    windows = -(-int(task.sizes("train")[0]) // protocol.train_stride)
    message = 4 * windows * HISTORY * 3  # B x T x code floats, over all batches of an epoch
    edges = [(s, d) for s, d in method.edges(task).T.tolist() if s != d]
    for client, name in enumerate(task.ids):
        crossed = message * sum(client in edge for edge in edges)  # codes one way, gradients the other
        for quantity in ("bytes_up", "bytes_down"):
            found = [v for _, c, q, v in state.log if c == name and q == quantity]
            assert found == [crossed] * protocol.rounds
    logged = [(round_, client, quantity) for round_, client, quantity, _ in state.log]
    assert len(set(logged)) == len(logged)  # both phases of the first round have a loss, each by its name
    assert {(0, "a", "pretrain_loss"), (0, "a", "joint_loss")} <= set(logged)


def test_heads_start_as_copies_of_the_pre_trained_encoder() -> None:
    task = problem(equal=True).task()
    federation, state = train(split(pretrain_epochs=3, lr=0.0), task, replace(WHOLE, rounds=2))
    for name in ("weight_ih_l0", "weight_hh_l1", "bias_ih_l0"):
        encoder, heads = state.params[f"encoder.{name}"], state.params[f"heads.{name}"]
        assert torch.equal(heads, encoder[:, None].expand_as(heads))
        assert (encoder != federation.start().params[f"encoder.{name}"]).any()


def city(cells: int) -> ForecastTask:
    """Hourly counts of a row-wise lattice of cells, four days to four hours (Sec. 4.1)."""
    steps, side, ids = 130, 9, [f"cell{i}" for i in range(cells)]
    stamps = pd.date_range("2024-01-01", periods=steps, freq="h", name="timestamp")
    counts = np.random.default_rng(0).poisson(20, (steps, cells)).astype("float32")
    values = pd.DataFrame(counts, index=stamps, columns=ids)
    places = [(41 + 0.01 * (i // side), -8 + 0.011 * (i % side) + 0.0055 * (i // side % 2)) for i in range(cells)]
    nodes = pd.DataFrame(places, index=pd.Index(ids, name="id"), columns=["lat", "lon"])
    clients = pd.DataFrame({"mean": 20.0, "std": 4.0}, index=ids)
    windows = pd.DataFrame(
        [(-1, part, 0) for part in ("train", "validation", "test")], columns=["client", "part", "start"]
    )
    partition = {
        "dataset": "city", "history": 96, "horizon": 4, "interval_minutes": 60, "fill": "mean",
        "missing_literal": None, "split": {"train": [0, 110]},
    }  # fmt: skip
    return forecast_task(Panel(values, nodes, no_edges()), partition, clients, windows, Protocol(), torch.device("cpu"))


def test_sizes_are_those_of_the_papers_networks() -> None:
    task = city(78)
    local = LocalLstm(model=BiLstm(BiLstm.Params()))
    assert set(local.parameters(task, local.client(task)).tolist()) == {35_844}
    spatial = StSplitVfl()
    held = spatial.parameters(task, spatial.client(task))
    seven = torch.bincount(spatial.edges(task)[0]) == 7
    assert set(held[seven].tolist()) == {91_652 + 24_640}
    assert held.double().mean() == 91_652 + 24_640
    crowded = SplitVfl()
    assert crowded.edges(task).shape[1] == 78 * 40
    assert crowded.parameters(task, crowded.client(task)).double().mean() == 361_988 + 140_800
    central = CentralLstm()
    expected = nn.LSTM(3 * 78, 64, bidirectional=True), nn.Linear(128, 4 * 78)
    assert sum(p.numel() for p in central.client(task).parameters()) == sum(
        p.numel() for module in expected for p in module.parameters()
    )
    assert not central.parameters(task, central.client(task)).any()


def test_random_partners_are_drawn_by_name() -> None:
    task = city(20)
    edges = SplitVfl(SplitVfl.Params(partners=5)).edges(task)
    assert torch.bincount(edges[1]).tolist() == [6] * 20
    assert SplitVfl().edges(task).shape[1] == 400


def test_the_centre_learns_from_all_and_gets_the_readings_once() -> None:
    given, method = problem(equal=True), CentralLstm(CentralLstm.Params(hidden=5))
    protocol = replace(WHOLE, validation_stride=1)
    task = given.task(protocol)
    federation, state = train(method, task, protocol)
    predict = predictor(method, federation.skeleton, task, federation.weights(state))
    assert rows_that_differ(predict(*everything(task)), predict(*everything(given.disturbed(B).task()))) == set(
        range(5)
    )
    seen = 130  # steps of the training and the validation part
    assert [v for _, c, q, v in state.log if q == "bytes_up" and c == "a"] == [4.0 * seen, 0.0, 0.0]
    assert {v for _, _, q, v in state.log if q == "bytes_down"} == {0.0}


def test_a_graph_of_places_needs_places() -> None:
    task = problem(equal=True).task()
    lost = replace(task, places=torch.full_like(task.places, float("nan")))
    with pytest.raises(InputError, match="place of every active client"):
        split().edges(lost)
    assert split(graph="panel").edges(lost).shape[1] == 10


def test_clients_with_other_windows_are_refused() -> None:
    with pytest.raises(InputError, match="same training windows"):
        train(split(), problem().task())
