"""ST-SplitVFL: a network split across clients, whose codes cross the edges of a spatial graph.

"ST-SplitVFL: Spatio-Temporal Split Vertical Federated Learning", Sec. 3 and 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.data.places import kilometres
from fedloom.errors import InputError
from fedloom.federation.method import Clients, Method, Moment, Noise, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.randomness import derive
from fedloom.federation.stack import Bound, Tensors, below, matching
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.bilstm import forecast, halved
from fedloom.models.forecaster import masked_mse
from fedloom.models.layers.split import SplitClient, codes, degrees, parameters_held
from fedloom.partition import graphs

Graph = Literal["knn", "threshold", "panel", "full", "random"]


class StSplitVfl(Method):
    """Client i encodes its window once for each neighbour j, which forecasts from all codes it receives (Sec. 3).

    Gradients return over the same edges; there is no server. Each head serves one receiver, so the losses never mix.
    """

    name = "st_split_vfl"
    cite = "ST-SplitVFL: Spatio-Temporal Split Vertical Federated Learning, Sec. 3"
    family = "forecast"
    couples = True

    @dataclass(frozen=True)
    class Params:
        """The paper's settings; its graph is the k nearest in Porto, a distance threshold in its text."""

        lr: float = 1e-2  # Adam, Sec. 4.2
        halve_every: int = 20  # epochs, Sec. 4.2
        pretrain_lr: float = 1e-3  # ours: the paper gives none
        pretrain_epochs: int = 20  # ours: the paper gives none
        code: int = 16  # hidden size of encoder and decoder, Sec. 4.2
        hidden: int = 64  # of the forecaster, Sec. 4.2
        dropout: float = 0.1  # Sec. 4.2; of the final states, the text does not say of what
        graph: Graph = "knn"  # Sec. 4.1
        k: int = 6  # nearest neighbours, Sec. 4.1
        kilometres: float = 1.0  # of `threshold`; ours: the paper gives none
        partners: int = 39  # of `random`, Sec. 4.3

    def edges(self, task: ForecastTask) -> Tensor:
        """Who sends its codes to whom, with self loops (Sec. 3)."""
        keys, clients = task.keys.numpy(force=True), len(task.ids)
        active, places = task.wanted.any(1).numpy(force=True), task.places.numpy(force=True)
        nowhere, distance = np.isnan(places).any(1), kilometres(places)
        if self.params.graph in ("knn", "threshold") and (nowhere & active).any():
            lost = task.ids[int(np.flatnonzero(nowhere & active)[0])]
            raise InputError(
                f"{self.name}: graph {self.params.graph}: expected the place of every active client, {lost} has none"
            )
        if self.params.graph == "random":
            drawn = [derive(task.keys, "partners", int(key)).numpy(force=True) for key in keys]
            links = graphs.nearest(np.stack(drawn, 1).astype(np.float64), self.params.partners)
        elif self.params.graph == "knn":
            links = graphs.nearest(distance, self.params.k)
        elif self.params.graph == "threshold":
            links = graphs.within(distance, self.params.kilometres)
        elif self.params.graph == "panel":
            links = graphs.listed(task.edges.numpy(force=True), clients)
        else:
            links = graphs.full(clients)
        return torch.from_numpy(graphs.exchange_graph(links, active, nowhere, keys)).to(task.device)

    def client(self, task: ForecastTask) -> SplitClient:
        """Encoder and decoder, heads, forecaster."""
        receivers, senders = degrees(self.edges(task))
        return SplitClient(task, receivers, senders, self.params.code, self.params.hidden)

    def parameters(self, task: ForecastTask, module: nn.Module) -> Tensor:
        """Those of a client's own heads and forecaster; the autoencoder is left behind after pre-training."""
        assert isinstance(module, SplitClient)
        return parameters_held(task, module, self.edges(task))

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Phase 1 before the first round, phase 2 in every one (Sec. 3)."""
        joint = Phase("joint", download=False, upload=False)
        if round_ > 0 or not self.params.pretrain_epochs:
            return (joint,)
        return (Phase("pretrain", epochs=self.params.pretrain_epochs, download=False, upload=False), joint)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """Phase 1 trains the autoencoder, phase 2 the heads and the forecasters at once."""
        if phase.name == "pretrain":
            over = ("encoder", "decoder", "rebuild")
            return (Step(self.rebuild, Adam(self.params.pretrain_lr), over, "pretrain"),)
        adam = Adam(halved(self.params.lr, self.params.halve_every, phase))
        noise = {"dropout": Noise((2 * self.params.hidden,), "uniform")}
        return (Step(self.loss, adam, ("heads", "forecaster"), "joint", noise=noise),)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """As many copies of the trained encoder as there are neighbours (Sec. 3, phase 1)."""
        if phase.name == "pretrain" or phase.round > 0:
            return {}
        copied = below(clients.params, "encoder.")
        return {f"heads.{n}": p[:, None].expand_as(clients.params[f"heads.{n}"]) for n, p in copied.items()}

    def rebuild(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's reconstruction error of its own window; nothing is sent."""
        return Outcome(model(batch, method="reconstruction"))

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each active client's squared error (Sec. 4.2); a passive one has no target, and its loss is 0."""
        return Outcome(torch.vmap(masked_mse)(self.predict(model, batch, moment), batch))

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [C, B, H]: encode, send, join what arrives, forecast (Sec. 3)."""
        assert moment.exchange is not None
        x_CTFB = model(batch, method="channels")
        code_ETDB = codes(x_CTFB, below(model.tensors, "heads."), moment.exchange)
        received_CRTDB = moment.exchange.side_by_side(moment.exchange.send(code_ETDB), len(x_CTFB))
        joined_CTDB = received_CRTDB.movedim(1, 2).flatten(2, 3)
        weights = below(model.tensors, "forecaster.")
        return forecast(joined_CTDB, weights, self.params.dropout, moment.noise.get("dropout"))

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """Heads and forecasters: what forecasting takes."""
        return {n: clients.params[n] for n in matching(clients.params, ("heads", "forecaster"))}
