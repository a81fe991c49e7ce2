"""CaST: a window's environment is exchanged for one of a codebook, and neighbours act by scores that pairs of them get.

"Deciphering Spatio-Temporal Graph Forecasting: A Causal Lens and Treatment", NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedloom.federation.central import Central, Centre, Learning, Scene, dropped, shares
from fedloom.federation.method import Moment, Noise, Outcome, Phase, Step, Tensors
from fedloom.federation.optim import Adam, stepped
from fedloom.federation.stack import Bound, StackedBound
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.layers.disentangle import Entity, Environment, start
from fedloom.models.layers.graph import panel_graph
from fedloom.models.layers.pairs import (
    PairConv,
    Passing,
    SceneNorm,
    lagged_correlations,
    neighbours,
    training_correlation,
)


class CastNet(nn.Module):
    """Scenes to forecasts [N, B, H], by what a window's environment says and what neighbours tell its entity.

    What a pair of neighbours is known by: the panel's weight, the correlation of training readings, and lagged
    correlations of their windows. These stand for the authors' time-warping distances, which take hours on long panels,
    and the weight, which on a road network falls with the distance, for the distance itself.

    Of the authors' code is not copied: a codebook that is read where windows are judged by a softmax which prefers the
    entry that is furthest away, here the nearest as in training; scores of the two directions of a pair that end up
    with other edges; a distance between code and entry of which either moves both.
    """

    known: Tensor
    pairs: Tensor

    def __init__(self, task: ForecastTask, params: Cast.Params) -> None:
        super().__init__()
        nodes, width, code = len(task.ids), params.width, params.code
        self.params, self.lags = params, range(0, task.history, params.lag)
        self.start = start(width, params.depth)
        self.environment = Environment(task.history, width, code, params.environments)
        self.entity = Entity(task.history, width, params.heads, params.dropout)
        if params.graph == "panel":
            weight_NN = panel_graph(task)
            pairs = neighbours(weight_NN)
            first, second = pairs
            known = [torch.maximum(weight_NN, weight_NN.mT)[first, second], training_correlation(task)[first, second]]
            self.register_buffer("pairs", pairs, persistent=False)
            self.register_buffer("known", torch.stack(known, -1), persistent=False)
            self.pair = nn.Linear(2 + len(self.lags), width)
            self.between, self.score = PairConv(pairs, nodes, width, params.order), nn.Linear(width, 2 * params.order)
        self.passing = Passing(nodes, width)
        self.node = nn.Parameter(torch.randn(nodes, code))
        self.of_environment, self.of_entity = nn.Linear(code, width), nn.Linear(code, width)
        self.guess = nn.ModuleList([nn.Linear(width, 2 * width), nn.Linear(2 * width, params.environments)])
        self.norm = SceneNorm(nodes, 2 * width)
        widths = (2 * width, *params.hidden)
        self.hidden = nn.ModuleList(nn.Linear(*ends) for ends in pairwise(widths))
        self.output = nn.Linear(widths[-1], task.horizon)

    def scores(self, scene: Scene) -> list[tuple[Tensor, Tensor]]:
        """How strongly the nodes of each pair act on each other, [E, B] forth and back, a round of messages each."""
        if self.params.graph == "none":
            return []
        lagged_EBF = lagged_correlations(scene.x_NBT, self.pairs, self.lags)
        known_EBF = self.known[:, None].expand(-1, lagged_EBF.shape[1], -1)
        found = self.score(self.between(self.pair(torch.cat([known_EBF, lagged_EBF], -1))))
        forth, back = (ways.unbind(-1) for ways in found.chunk(2, -1))
        return list(zip(forth, back, strict=True))

    def read(self, scene: Scene, learning: Learning | None) -> tuple[Tensor, Tensor]:
        """Forecasts [N, B, H], and what else each node adds to the loss [N]."""
        h = self.start(scene.x_NBT[..., None])
        environment_NBD, code, chosen = self.environment(h)
        pairs = self.pairs if self.params.graph == "panel" else torch.empty(2, 0, dtype=torch.long, device=h.device)
        entity_NBD = self.passing(self.entity(h, learning), pairs, self.scores(scene))
        environment_NBD = environment_NBD + self.of_environment(self.node)[:, None]
        entity_NBD = entity_NBD + self.of_entity(self.node)[:, None]
        h = self.norm(torch.cat([environment_NBD, entity_NBD], -1))
        for layer, part in enumerate(self.hidden):
            h = dropped(torch.relu(part(h)), learning, f"hidden {layer}", self.params.dropout)
        first, second = self.guess
        guessed = second(dropped(torch.relu(first(entity_NBD)), learning, "guess", self.params.dropout)).softmax(-1)
        # The authors' softmax before that of the cross entropy keeps bounded what is to be as large as can be.
        told = cross_entropy(guessed.movedim(-1, 1), chosen, reduction="none").mean(1)
        moving_entries, moving_codes = self.environment.distances(code, chosen)
        terms = moving_entries + self.params.commitment * moving_codes - self.params.independence * told
        return self.output(h), terms / len(terms)

    def forward(self, scene: Scene, learning: Learning | None) -> Tensor:
        return self.read(scene, learning)[0]


class CausalCentre(Centre):
    """A ``CastNet`` behind windows of clients."""

    def learn_apart(self, batch: Windows, draws: Tensors, progress: float) -> tuple[Tensor, Tensor]:
        """Errors [C, B, H] in the unit of the readings, and each client's part of the other terms [C]."""
        assert isinstance(self.net, CastNet)
        learning = Learning({n: d[self.order] for n, d in draws.items()}, progress)
        forecast_NBH, terms_N = self.net.read(self.scene(batch), learning)
        return (self._at_home(forecast_NBH) - batch.y) * self.unit, terms_N[self.place]


class Cast(Central):
    """One network tells environments and entities apart, and learns which neighbours are causes."""

    name = "cast"
    cite = "Xia et al., Deciphering Spatio-Temporal Graph Forecasting: A Causal Lens and Treatment, NeurIPS 2023"

    @dataclass(frozen=True)
    class Params:
        """The settings of the authors' code where no other source is named; milestones are shares of 250 epochs."""

        lr: float = 1e-3  # Adam
        milestones: tuple[float, ...] = (0.04, 0.12, 0.2, 0.28, 0.32)  # 0.7 of the rate at each
        clip: float = 5.0
        width: int = 64
        depth: int = 10  # convolution blocks of one channel
        environments: int = 10  # entries of the codebook; as for Beijing's air, none is given for roads of METR-LA
        code: int = 10  # numbers a step in an entry, and of a node's vector; as for Beijing's air
        order: int = 2  # polynomials of the pairs' Laplacian, and rounds of messages; as for PEMS08
        heads: int = 4
        hidden: tuple[int, ...] = (256, 512)  # of the head
        lag: int = 6  # steps between the lags at which windows are compared
        commitment: float = 0.25  # of codes to their entries; VQ-VAE, as the code's 1 moved both
        independence: float = 1.0  # of entities from environments
        dropout: float = 0.3  # of the class; the command line has 0.2
        graph: Literal["panel", "none"] = "panel"  # `none` is the same network without messages between neighbours

    def client(self, task: ForecastTask) -> nn.Module:
        """The one network."""
        return CausalCentre(task, CastNet(task, self.params))

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One Adam step; every dropout has draws of its own."""
        width = self.params.width
        sizes: dict[str, tuple[int | str, ...]] = {"shares": (self.params.heads, "history", "history")}
        sizes |= {"gathered": ("history", width), "entity": ("history", width), "guess": (2 * width,)}
        sizes |= {f"hidden {layer}": (size,) for layer, size in enumerate(self.params.hidden)}
        noise = {name: Noise(size, "uniform") for name, size in sizes.items()}
        adam = Adam(stepped(self.params.lr, self.params.milestones, 0.7, phase.progress), clip=self.params.clip)
        return (Step(self.loss, adam, noise=noise if self.params.dropout else {}),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's part of the mean absolute error and of the terms for codebook and environments."""
        assert isinstance(model, StackedBound)
        error_CBH, terms_C = model.one(batch, moment.noise, moment.progress, method="learn_apart")
        return Outcome(shares(error_CBH.abs(), batch.mask) + terms_C)
