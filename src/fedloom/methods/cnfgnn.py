"""CNFGNN: sensors share an encoder and a decoder by averaging, and a graph network at the server joins their codes.

Meng, Rambhatla and Liu, "Cross-Node Federated Graph Neural Network for Spatio-Temporal Data Modeling", KDD 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from fedloom.errors import InputError
from fedloom.federation.method import Clients, Method, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, Tensors, below
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.graph_network import GraphNetwork
from fedloom.models.layers.recurrent import told_share
from fedloom.models.layers.seq2seq import SeqToSeq


class Sensor(SeqToSeq):
    """A sensor's network, and how many minibatches it has trained on: that sets how often it is fed the truth."""

    batches: Tensor

    def __init__(self, task: ForecastTask, hidden: int) -> None:
        super().__init__(task, hidden)
        self.register_buffer("batches", torch.zeros(()))


class Cnfgnn(Method):
    """Rounds alternate: clients train with the contexts of the round before, the server its graph network (Alg. 1).

    A context is the graph network's answer to all clients' codes of one moment. The server keeps the graph, in which
    every client also reads itself, and one more node that sums up all. Contexts are stale while clients train, by
    design: they come from the weights with which the round began, zeros in round 0. They are made when a client asks
    for them, not stored for all windows, and are the same numbers. The authors' code scales by all sensors, averages
    the errors of batches and takes 128 windows a minibatch at clients and 48 at the server; here scaler, metric and
    minibatch are the project's. A missing truth is never told.
    """

    name = "cnfgnn"
    cite = "Meng et al. 2021, Cross-Node Federated Graph Neural Network, KDD, Alg. 1"
    family = "forecast"
    couples = True
    only_averages = False
    shared = ("encoder", "decoder", "output")

    @dataclass(frozen=True)
    class Params:
        """As the authors' code runs on METR-LA."""

        lr: float = 1e-3  # Adam, of clients and server
        hidden: int = 64  # of the encoder, and of codes and contexts
        width: int = 256  # inside the graph network's maps
        message: int = 128  # what each of them gives
        blocks: int = 2
        passes: int = 1  # of the server over the windows; 20 on PEMS-BAY
        decay: float = 1000.0  # minibatches, of the chance to be fed the truth

    def edges(self, task: ForecastTask) -> Tensor:
        """The task's edges and a loop at every client. Raises InputError where the task has none."""
        return self._graph(task)[0]

    def _graph(self, task: ForecastTask) -> tuple[Tensor, Tensor]:
        between = task.edges[0] != task.edges[1]
        if not bool(between.any()):
            raise InputError(f"{self.name}: edges: expected a graph between the clients, found none")
        loops = torch.arange(len(task.ids), device=task.device).expand(2, -1)
        weights = torch.cat([task.weights[between], torch.ones_like(task.mean)])
        return torch.cat([task.edges[:, between], loops], 1), weights

    def client(self, task: ForecastTask) -> nn.Module:
        """Encoder and decoder."""
        return Sensor(task, self.params.hidden)

    def _network(self) -> GraphNetwork:
        p = self.params
        return GraphNetwork(p.hidden, p.width, p.message, p.blocks)

    @cached_property
    def _shape(self) -> GraphNetwork:
        """The graph network without weights, to be bound to those of the server."""
        with torch.device("meta"):
            return self._network()

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Clients train and are averaged; then the server passes over the windows, clients' weights frozen."""
        passes = (Phase(f"pass{p}", 1, download=False, upload=False) for p in range(self.params.passes))
        return (Phase(), *passes)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step: of every client with moments of the round, or of the server with moments that stay."""
        adam, coins = Adam(self.params.lr), {"coin": Noise(("horizon",), "uniform", per_sample=False)}
        if phase.name != "train":
            known = phase.whole and phase.name != "pass0"
            return (Step(partial(self.join, known), adam, ("graph",), "server", noise=coins, at_server=True),)
        loss = self.alone if phase.round == 0 else partial(self.loss, phase.whole)
        return (Step(loss, adam, noise=coins),)

    # -- clients, contexts held -------------------------------------------------------------------------------------

    def loss(self, known: bool, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's squared error, with contexts from the weights that the round began with."""
        with torch.no_grad():
            code_CBD = self._averaged(model, moment)(batch, method="encode")
            context_CBD = self._context(code_CBD, moment, known, gradient=False)
        return self._trained(model, batch, context_CBD, moment)

    def alone(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """The same in round 0, with contexts of zero."""
        return self._trained(model, batch, batch.x.new_zeros((*batch.x.shape[:2], self.params.hidden)), moment)

    def _trained(self, model: Bound, batch: Windows, context_CBD: Tensor, moment: Moment) -> Outcome:
        forecast = model(batch, context_CBD, self.told(model["batches"], moment.noise["coin"]))
        return Outcome(torch.vmap(masked_mse)(forecast, batch), {"batches": model["batches"] + 1})

    def told(self, batches_C: Tensor, coin_CH: Tensor) -> Tensor:
        """Whether each client hears the truth after each step, bool [C, 1, H]: with chance t / (t + exp(i / t))."""
        chance_C = told_share(batches_C, self.params.decay)
        return (coin_CH < chance_C[:, None])[:, None]

    # -- the server's graph network ----------------------------------------------------------------------------------

    def join(self, known: bool, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's squared error under the averaged weights, for the graph network to learn from."""
        assert moment.exchange is not None
        averaged = self._averaged(model, moment)
        with torch.no_grad():
            code_CBD = averaged(batch, method="encode")
        told, context_CBD = self.told(model["batches"], moment.noise["coin"]), self._context(code_CBD, moment, known)
        forecast = averaged(batch, code_CBD, context_CBD, told, method="decode")
        return Outcome(torch.vmap(masked_mse)(forecast, batch))

    def _averaged(self, model: Bound, moment: Moment) -> Bound:
        """The module under the server's mean of all clients' weights."""
        return model.holding({name: moment.server[name] for name in self.travelling(moment.server)})

    def _context(self, code_CBD: Tensor, moment: Moment, known: bool, gradient: bool = True) -> Tensor:
        """Codes go up, unless the server has them; contexts come down, and in the server's passes gradients go up."""
        exchange, server = moment.exchange, moment.server
        assert exchange is not None
        network = Bound(self._shape, below(server, "graph."))
        code_CBD = exchange.to_server(code_CBD, gradient=False, known=known)
        return exchange.from_server(network(code_CBD, server["weights"], exchange.src, exchange.dst), gradient)

    def server(self, task: ForecastTask, start: Tensors) -> Tensors:
        """The mean of clients' weights, the graph network, the weights of the graph's edges."""
        graph = self._network().to(task.device, task.dtype)
        own = {f"graph.{name}": p.detach() for name, p in graph.named_parameters()}
        return super().server(task, start) | own | {"weights": self._graph(task)[1]}

    # -- what is judged ----------------------------------------------------------------------------------------------

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """All that the server holds."""
        return {name: value.expand(len(clients), *value.shape) for name, value in server.items()}

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [C, B, H] with fresh contexts."""
        shared = model.holding({name: value[0] for name, value in model.tensors.items()})
        code_CBD = shared(batch, method="encode")
        forecast: Tensor = shared(batch, code_CBD, self._context(code_CBD, moment, False), method="decode")
        return forecast
