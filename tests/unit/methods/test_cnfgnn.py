"""CNFGNN has the published sizes, alternates as its algorithm says, and every crossing is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import CLIENTS, HORIZON, PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.method import Method
from fedloom.federation.protocol import Protocol
from fedloom.federation.rounds import Federation, State, predictor
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.methods.cnfgnn import Cnfgnn
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.graph_network import GraphNetwork
from fedloom.models.layers.seq2seq import SeqToSeq

NEVER = 1e-9  # decay, in minibatches: the truth is not told even to the first
WHOLE = replace(PROTOCOL, batch=1000, train_stride=1)  # one step a phase


def small(passes: int = 1, decay: float = NEVER) -> Cnfgnn:
    return Cnfgnn(Cnfgnn.Params(hidden=4, width=6, message=3, passes=passes, decay=decay))


def train(method: Cnfgnn, task: ForecastTask, protocol: Protocol = WHOLE) -> tuple[Federation, State]:
    federation = Federation(method, task, protocol, seed=0)
    return federation, federation.run(federation.start())


def everything(task: ForecastTask) -> Windows:
    return task.batch("train", torch.arange(CLIENTS), torch.arange(int(task.sizes("train")[0])).expand(CLIENTS, -1))


def test_it_has_the_published_sizes(metr_la_sized: ForecastTask) -> None:
    method = Cnfgnn()
    module = method.client(metr_la_sized)
    assert set(method.parameters(metr_la_sized, module).tolist()) == {63_873}
    server = method.server(metr_la_sized, module.state_dict())
    assert sum(value.numel() for name, value in server.items() if name.startswith("graph.")) == 1_237_312


def renewed(block: nn.Module, nodes: list, edges: list, graph: Tensor, pairs: list[list[int]]) -> tuple:
    """A block written out, one edge and one node after the other."""
    assert isinstance(block.edge, nn.Sequential)
    assert isinstance(block.node, nn.Sequential)
    assert isinstance(block.graph, nn.Sequential)
    new_edges = [
        block.edge(torch.cat([nodes[s], nodes[d], edge, graph], -1)) for (s, d), edge in zip(pairs, edges, strict=True)
    ]
    new_nodes = []
    for i, node in enumerate(nodes):
        arrived = [new for (_, d), new in zip(pairs, new_edges, strict=True) if d == i]
        new_nodes.append(block.node(torch.cat([node, sum(arrived, torch.zeros_like(new_edges[0])), graph], -1)))
    new_graph = block.graph(torch.cat([sum(new_nodes), sum(new_edges), graph], -1))
    joined = [[torch.cat(p, -1) for p in zip(a, b, strict=True)] for a, b in ((new_nodes, nodes), (new_edges, edges))]
    return *joined, torch.cat([new_graph, graph], -1)


def test_the_graph_network_is_its_loops() -> None:
    network = GraphNetwork(code=4, width=6, message=3, blocks=2).double()
    code_NBD, weight = torch.randn(5, 2, 4).double(), torch.rand(7).double()
    pairs = torch.tensor([[0, 1, 2, 3, 3, 0, 2], [1, 2, 0, 0, 3, 2, 4]])
    nodes, graph = list(code_NBD), torch.zeros(2, 4).double()
    edges = [w.expand(2, 1) for w in weight]
    for block in network.blocks:
        nodes, edges, graph = renewed(block, nodes, edges, graph, pairs.T.tolist())
    expected = torch.stack([network.output(node) for node in nodes])
    torch.testing.assert_close(network(code_NBD, weight, *pairs), expected)


class Plain(nn.Module):
    """A sensor's network from torch's own layers, never told the truth."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(2, hidden, batch_first=True)
        self.decoder = nn.GRU(2, 2 * hidden, batch_first=True)
        self.output = nn.Linear(2 * hidden, 1)
        self.double()

    def encode(self, x_BT: Tensor, slot_B: Tensor) -> Tensor:
        back = torch.arange(x_BT.shape[1] - 1, -1, -1)
        day = ((slot_B[:, None] - back) % 24) / 24
        final: Tensor = self.encoder(torch.stack([x_BT, day.double()], -1))[1][0]
        return final

    def decode(self, code: Tensor, context: Tensor, x_BT: Tensor, slot_B: Tensor) -> Tensor:
        state, value, ahead = torch.cat([code, context], -1)[None], x_BT[:, -1], []
        for step in range(HORIZON):
            fed = torch.stack([value, ((slot_B + step) % 24 / 24).double()], -1)
            out, state = self.decoder(fed[:, None], state)
            value = self.output(out[:, 0])[:, 0]
            ahead.append(value)
        return torch.stack(ahead, -1)


def own(batch: Windows, client: int) -> Windows:
    return Windows(*(part[client] for part in batch))


def test_training_is_the_alternation_of_its_algorithm_step_by_step() -> None:
    task, method, lr, rounds = problem(equal=True).task(), small(passes=2), 1e-3, 3
    federation = Federation(method, task, replace(WHOLE, rounds=rounds), seed=0)
    state, batch = federation.start(), everything(task)
    mean = Plain(4)
    mean.load_state_dict({n: state.server[n] for n in mean.state_dict()})
    network = GraphNetwork(code=4, width=6, message=3, blocks=2).double()
    network.load_state_dict({n: state.server[f"graph.{n}"] for n in network.state_dict()})
    at_server = torch.optim.Adam(network.parameters(), lr=lr)
    (src, dst), weights = method.edges(task), state.server["weights"]

    def codes() -> Tensor:
        return torch.stack([mean.encode(batch.x[c], batch.clock[c, :, 0]) for c in range(CLIENTS)]).detach()

    def losses(forecaster: Plain, code: Tensor, context: Tensor, client: int) -> Tensor:
        forecast = forecaster.decode(code, context, batch.x[client], batch.clock[client, :, 0])
        return masked_mse(forecast, own(batch, client))

    contexts = torch.zeros_like(codes())
    for _ in range(rounds):
        trained = []
        for client in range(CLIENTS):
            sensor = Plain(4)
            sensor.load_state_dict(mean.state_dict())
            adam = torch.optim.Adam(sensor.parameters(), lr=lr)
            code = sensor.encode(batch.x[client], batch.clock[client, :, 0])
            losses(sensor, code, contexts[client], client).backward()
            adam.step()
            trained.append(sensor.state_dict())
        mean.load_state_dict({n: torch.stack([t[n] for t in trained]).mean(0) for n in trained[0]})
        for _ in range(2):
            at_server.zero_grad()
            contexts, code = network(codes(), weights, src, dst), codes()
            sum(losses(mean, code[c], contexts[c], c) for c in range(CLIENTS)).backward()  # type: ignore[union-attr]
            at_server.step()
        contexts = network(codes(), weights, src, dst).detach()
        federation.step(state)
        for name, value in mean.state_dict().items():
            torch.testing.assert_close(state.server[name], value, rtol=0, atol=1e-7)
        for name, value in network.state_dict().items():
            torch.testing.assert_close(state.server[f"graph.{name}"], value, rtol=0, atol=1e-7)
        forecast = predictor(method, federation.skeleton, task, federation.weights(state))(batch, torch.arange(CLIENTS))
        code = codes()
        expected = [mean.decode(code[c], contexts[c], batch.x[c], batch.clock[c, :, 0]) for c in range(CLIENTS)]
        torch.testing.assert_close(forecast, torch.stack(expected), rtol=0, atol=1e-6)


def test_the_servers_network_is_counted_beside_what_clients_hold() -> None:
    method = small()
    federation, state = train(method, problem(equal=True).task())
    network = GraphNetwork(code=4, width=6, message=3, blocks=2)
    assert federation.central_parameters(state) == sum(p.numel() for p in network.parameters())


def test_moments_of_clients_last_a_round_and_those_of_the_server_stay() -> None:
    _, state = train(small(passes=2), problem(equal=True).task(), replace(WHOLE, rounds=3))
    assert state.moments["step"]["encoder.weight_ih_l0/count"].tolist() == [1.0] * CLIENTS
    assert state.moments["server"]["graph.output.weight/count"].tolist() == [6.0]
    assert state.buffers["batches"].tolist() == [3.0] * CLIENTS


@pytest.mark.parametrize("passes", [1, 3])
def test_codes_go_up_once_gradients_in_every_pass_and_contexts_come_down(passes: int) -> None:
    method, task = small(passes), problem(equal=True).task()
    federation, state = train(method, task, replace(WHOLE, batch=16))
    windows, sensor, hidden = int(task.sizes("train")[0]), federation.parameters, method.params.hidden
    for client in task.ids:
        up, down = (
            [v for _, c, q, v in state.log if (c, q) == (client, quantity)] for quantity in ("bytes_up", "bytes_down")
        )
        assert up == [4.0 * (sensor + hidden * windows + hidden * windows * passes)] * WHOLE.rounds
        held = [0.0] + [hidden * windows] * (WHOLE.rounds - 1)  # round 0 has no contexts to begin with
        assert down == [4.0 * (sensor + hidden * windows * passes + h) for h in held]


def test_where_an_epoch_takes_other_windows_their_codes_go_up_too() -> None:
    method, task = small(passes=2), problem(equal=True).task()
    federation, state = train(method, task, replace(PROTOCOL, train_stride=2))
    windows = -(-int(task.sizes("train")[0]) // 2)
    up = [v for _, c, q, v in state.log if (c, q) == ("a", "bytes_up")]
    codes_and_gradients = [2 + 2, 3 + 2, 3 + 2]
    assert up == [4.0 * (federation.parameters + 4 * windows * times) for times in codes_and_gradients]


def test_the_truth_is_told_as_often_as_the_schedule_says() -> None:
    batches = torch.tensor([0.0, 1.0, 3.0, 9.0, 1e6])
    chance_C = torch.tensor([2 / (2 + math.exp(i / 2)) for i in (0, 1, 3, 9)] + [0.0])
    method = small(decay=2.0)
    assert not method.told(batches, chance_C[:, None] + 1e-6).any()
    assert method.told(batches, chance_C[:, None] - 1e-6)[:, 0, 0].tolist() == [True] * 5


def test_the_decoder_hears_the_truth_where_it_is_told_and_was_observed() -> None:
    task = problem(equal=True).task()
    net, batch = SeqToSeq(task, 4).double(), own(everything(task), 0)
    moved = batch._replace(y=batch.y + 1)
    unseen = moved._replace(mask=torch.zeros_like(moved.mask))
    told = torch.tensor([[False, True, False, False]])
    code, context = net.encode(batch), torch.zeros(len(batch.x), 4).double()
    one, other = (net.decode(given, code, context, told) for given in (batch, moved))
    differs = (one != other) & (batch.mask[:, 1:2] > 0)
    assert differs.any(0).tolist() == [False, False, True, True]
    assert torch.equal(net.decode(unseen, code, context, told), net.decode(unseen, code, context))


def test_a_task_without_a_graph_is_refused() -> None:
    task = problem(equal=True).task()
    with pytest.raises(InputError, match="cnfgnn: edges: expected a graph"):
        small().edges(replace(task, edges=task.edges[:, :0], weights=task.weights[:0]))


def test_it_learns_a_few_windows_by_heart(together_by_heart: Callable[[Method, int, int], float]) -> None:
    params = Cnfgnn.Params(lr=2e-3, hidden=32, width=32, message=16, decay=1.0)
    assert together_by_heart(Cnfgnn(params), 12, 20) < 0.01
